//! Tests which initiator ports learn that registrations and modes may be lost: each once after the
//! start of the server, and those that were away when something changed.

use super::{BLOCKS, PROPERTIES, cdb, execute, new_unit};
use crate::scsi::action::Refusal;
use crate::scsi::opcodes::code;
use crate::scsi::reservations::Nexus;
use crate::scsi::sense::Sense;
use crate::scsi::unit::Unit;
use volume::MemoryVolume;

fn unit() -> Unit {
    new_unit(MemoryVolume::new(BLOCKS * 512), PROPERTIES)
}

fn session(unit: &Unit, number: u64, port: u8) -> Nexus {
    let nexus = Nexus::new(number, "iqn.x:us", [port; 6]);
    unit.attach(&nexus);
    nexus
}

fn ready(unit: &Unit, nexus: &Nexus) -> Result<Vec<u8>, Refusal> {
    execute(unit, nexus, cdb(&[code::TEST_UNIT_READY]), &[])
}

const GOOD: Result<Vec<u8>, Refusal> = Ok(Vec::new());
const POWER_ON: Result<Vec<u8>, Refusal> = Err(Refusal::Sense(Sense::POWER_ON));

#[test]
fn a_port_learns_once_that_the_unit_is_new() {
    let unit = unit();
    let one = session(&unit, 1, 1);
    for command in [
        cdb(&[code::INQUIRY, 0, 0, 0, 96, 0]),
        cdb(&[code::REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0, 0, 96, 0, 0]),
    ] {
        assert!(execute(&unit, &one, command, &[]).is_ok());
    }
    assert_eq!(ready(&unit, &one), POWER_ON);
    assert_eq!(ready(&unit, &one), GOOD);
    // The same port again, and another one, which asks for its sense.
    unit.detach(&one);
    let again = session(&unit, 2, 1);
    let other = session(&unit, 3, 2);
    assert_eq!(ready(&unit, &again), GOOD);
    let sense = execute(
        &unit,
        &other,
        cdb(&[code::REQUEST_SENSE, 0, 0, 0, 18, 0]),
        &[],
    )
    .unwrap();
    assert_eq!((sense[2], &sense[12..14]), (6, &[0x29, 0][..]));
    assert_eq!(ready(&unit, &other), GOOD);
}

#[test]
fn what_a_port_has_not_learned_before_its_session_ended_it_learns_later() {
    let unit = unit();
    unit.detach(&session(&unit, 1, 1));
    let two = session(&unit, 2, 1);
    assert_eq!(ready(&unit, &two), POWER_ON);
    unit.reset();
    unit.detach(&two);
    let three = session(&unit, 3, 1);
    assert_eq!(ready(&unit, &three), POWER_ON);
    // It is away when something changes.
    unit.detach(&three);
    unit.reset();
    let four = session(&unit, 4, 1);
    assert_eq!(ready(&unit, &four), POWER_ON);
    assert_eq!(ready(&unit, &four), GOOD);
}

#[test]
fn a_unit_without_sessions_remembers_which_have_learned() {
    let first = unit();
    let one = session(&first, 1, 1);
    assert_eq!(ready(&first, &one), POWER_ON);
    first.detach(&one);
    let second = unit();
    second.take_back(first.remember().unwrap());
    assert_eq!(ready(&second, &session(&second, 2, 1)), GOOD);
    assert_eq!(ready(&second, &session(&second, 3, 2)), POWER_ON);
    second.close();
    assert!(second.remember().is_none());
}

#[test]
fn only_so_many_ports_are_remembered() {
    let unit = unit();
    let visit = |number: u64| {
        let name = format!("iqn.x:{number}");
        let nexus = Nexus::new(number, &name, [0; 6]);
        unit.attach(&nexus);
        let first = ready(&unit, &nexus);
        unit.detach(&nexus);
        first
    };
    assert!((0..5000).all(|number| visit(number) == POWER_ON));
    assert_eq!(visit(4999), GOOD);
    assert_eq!(visit(0), POWER_ON);
}
