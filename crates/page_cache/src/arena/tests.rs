use super::*;

#[test]
fn runs_of_ones() {
    assert_eq!(longest_run(0), 0);
    assert_eq!(longest_run(u64::MAX), 64);
    assert_eq!(longest_run(0b0111_0110), 3);
    assert_eq!(first_run(0b0111_0110, 2), Some(1));
    assert_eq!(first_run(0b0111_0110, 3), Some(4));
    assert_eq!(first_run(0b0111_0110, 4), None);
    assert_eq!(first_run(u64::MAX, 64), Some(0));
}
