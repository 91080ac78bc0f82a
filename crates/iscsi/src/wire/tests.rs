use super::digest::digest;
use super::pdu::{PduHeader, padding, request};
use super::text;

#[test]
fn digests_are_those_of_the_rfc() {
    // RFC 7143, appendix A.4.
    assert_eq!(digest(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
    assert_eq!(digest(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
    let rising: Vec<u8> = (0..32).collect();
    assert_eq!(digest(&rising), [0x4e, 0x79, 0xdd, 0x46]);
}

#[test]
fn headers_survive_a_round_trip() {
    let header = PduHeader::new(request::COMMAND, 0x80)
        .with_tag(0x0102_0304)
        .with_u64::<8>(5)
        .with_data_bytes(0x01_0203);
    let again = PduHeader::decode(&header.0).unwrap();
    assert_eq!(again, header);
    assert_eq!((again.tag(), again.lun()), (0x0102_0304, 5));
    assert_eq!(again.data_bytes(), 0x01_0203);
    assert!(again.is_final() && !again.is_immediate());
    assert_eq!(PduHeader::decode(&[0; 47]), None);
    let lengths = [0, 1, 2, 3, 4, 5].map(padding);
    assert_eq!(lengths, [0, 3, 2, 1, 0, 3]);
}

#[test]
fn text_is_pairs_or_nothing() {
    let pairs = text::decode(b"a=1\0b=\0\0c=x=y\0").unwrap();
    assert_eq!(pairs, [("a", "1"), ("b", ""), ("c", "x=y")]);
    assert_eq!(text::decode(b""), Some(Vec::new()));
    for wrong in [b"a\0".as_slice(), b"=1\0", b"\xff=1\0", &[b'a'; 100]] {
        assert_eq!(text::decode(wrong), None, "{wrong:?}");
    }
    assert_eq!(text::decode(b"a=1\0b=1\0a=1\0"), None, "twice");
    let many = |count| {
        (0..count)
            .map(|at| format!("k{at}=1\0"))
            .collect::<String>()
    };
    assert_eq!(
        text::decode(many(128).as_bytes()).map(|p| p.len()),
        Some(128)
    );
    assert_eq!(text::decode(many(129).as_bytes()), None);
}

#[test]
fn numbers_and_binaries() {
    assert_eq!(text::number("0x1F"), Some(31));
    assert_eq!(text::number("262144"), Some(262_144));
    for wrong in ["", "-1", "+1", "1 ", "0x", "0xg", "99999999999999999999"] {
        assert_eq!(text::number(wrong), None, "{wrong:?}");
    }
    assert_eq!(text::binary("0x0aB"), Some(vec![0, 0xab]));
    assert_eq!(text::binary("0bSGFsbG8="), Some(b"Hallo".to_vec()));
    for wrong in ["0b!", "0x", "0b", "0b==", "0bA", "0bA==="] {
        assert_eq!(text::binary(wrong), None, "{wrong:?}");
    }
    assert_eq!(text::binary("0ö"), None);
    assert_eq!(text::binary(&format!("0x{}", "0".repeat(4000))), None);
    assert_eq!(text::encode_binary(&[1, 0xff]), "0x01ff");
}
