//! The addresses of a server as initiators reach them, where these are others than those that it
//! listens on: behind address translation, in a container, with forwarded ports. The program parses
//! them from its command line; answers to SendTargets list them.
//!
//! Invariant: an address is one that initiators can use as RFC 7143, 13.8, writes it. All portals
//! of a server are one group: its target has one port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Group of a server whose portals say none.
pub(crate) const PORTAL_GROUP: u16 = 1;
/// Maximum length of the name of a host, and of a part of it, bytes.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// An address of a server, as in TargetAddress, and its group if the user gave one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Host and port.
    address: String,
    group: Option<u16>,
}

/// Addresses that are no portals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortalError {
    /// It has not the form of an address.
    #[error(
        "a portal is HOST:PORT or HOST:PORT,TAG; HOST is a name, an IPv4 address, or an IPv6 \
         address in brackets"
    )]
    Form,
    /// No initiator can connect to it.
    #[error("no initiator can connect to this address: give one that leads to the server")]
    Unreachable,
    /// The port is no number from 1 to 65535.
    #[error("the port of a portal is 1 to 65535")]
    Port,
    /// The tag is no number from 1 to 65535.
    #[error("the tag of a portal group is 1 to 65535")]
    Tag,
    /// Portals have different tags.
    #[error("the portals of one server are one group: give all of them the same TAG, or none")]
    Groups,
}

impl FromStr for Portal {
    type Err = PortalError;

    fn from_str(text: &str) -> Result<Self, PortalError> {
        let (address, group) = match text.rsplit_once(',') {
            Some((address, tag)) => (address, Some(number(tag).ok_or(PortalError::Tag)?)),
            None => (text, None),
        };
        let (host, port) = address.rsplit_once(':').ok_or(PortalError::Form)?;
        let host = match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
            Some(host) => {
                let host: Ipv6Addr = host
                    .and_then(|host| host.parse().ok())
                    .ok_or(PortalError::Form)?;
                check(host.into())?;
                format!("[{host}]")
            }
            None => match host.parse::<Ipv4Addr>() {
                Ok(host) => {
                    check(host.into())?;
                    host.to_string()
                }
                Err(_) if is_name(host) => host.to_owned(),
                Err(_) => return Err(PortalError::Form),
            },
        };
        let port = number(port).ok_or(PortalError::Port)?;
        Ok(Self {
            address: format!("{host}:{port}"),
            group,
        })
    }
}

/// Returns a number from 1 to 65535 in plain digits.
fn number(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_plain);
    number.filter(|number| *number > 0)
}

fn check(address: IpAddr) -> Result<(), PortalError> {
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    match address.is_unspecified() || address.is_multicast() || is_broadcast {
        true => Err(PortalError::Unreachable),
        false => Ok(()),
    }
}

/// Returns true for the name of a host. A name whose last part is a number is a mistyped address.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= HOST_BYTES_MAX
        && host.split('.').all(is_label)
        && !last.bytes().all(|b| b.is_ascii_digit())
}

impl fmt::Display for Portal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// The portals of a server. The default: the address that the initiator has connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Portals {
    addresses: Vec<String>,
    group: Option<u16>,
}

impl Portals {
    /// Takes the portals that a user gave.
    pub fn new(portals: &[Portal]) -> Result<Self, PortalError> {
        let group = portals.first().and_then(|portal| portal.group);
        if portals.iter().any(|portal| portal.group != group) {
            return Err(PortalError::Groups);
        }
        Ok(Self {
            addresses: portals.iter().map(Portal::to_string).collect(),
            group,
        })
    }

    /// Returns the tag of their group.
    pub(crate) fn group(&self) -> u16 {
        self.group.unwrap_or(PORTAL_GROUP)
    }

    /// Returns the addresses for an initiator that has connected to `local`.
    pub(crate) fn of(&self, local: String) -> Vec<String> {
        match self.addresses.is_empty() {
            true => vec![local],
            false => self.addresses.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_initiators_can_use() {
        for (text, address) in [
            ("192.0.2.7:3260", "192.0.2.7:3260"),
            ("192.0.2.7:3260,1", "192.0.2.7:3260"),
            ("[2001:DB8::7]:860,65535", "[2001:db8::7]:860"),
            ("[::1]:1", "[::1]:1"),
            ("san.example.org:13260", "san.example.org:13260"),
            ("host-1:3260", "host-1:3260"),
            ("7.example:3260", "7.example:3260"),
        ] {
            assert_eq!(Portal::from_str(text).unwrap().to_string(), address);
        }
        use PortalError::{Form, Port, Tag, Unreachable};
        let long = format!("{}:1", ["a"; 128].join("."));
        for (text, why) in [
            ("", Form),
            ("192.0.2.7", Form),
            (":3260", Form),
            ("2001:db8::7:3260", Form),
            ("[2001:db8::7:3260", Form),
            ("[fe80::1%eth0]:3260", Form),
            ("[192.0.2.7]:3260", Form),
            ("192.0.2:3260", Form),
            ("192.0.2.256:3260", Form),
            ("a b:3260", Form),
            ("-a:3260", Form),
            ("a..b:3260", Form),
            ("a/b:3260", Form),
            ("ä:3260", Form),
            (&long, Form),
            ("0.0.0.0:3260", Unreachable),
            ("[::]:3260", Unreachable),
            ("224.0.0.1:3260", Unreachable),
            ("255.255.255.255:3260", Unreachable),
            ("host:", Port),
            ("host:0", Port),
            ("host:65536", Port),
            ("host:+1", Port),
            ("host:3260,", Tag),
            ("host:3260,0", Tag),
            ("host:3260,65536", Tag),
            ("host:3260,-1", Tag),
        ] {
            assert_eq!(Portal::from_str(text), Err(why), "{text}");
        }
    }

    #[test]
    fn all_portals_are_one_group() {
        let portals = |texts: &[&str]| {
            let all: Vec<Portal> = texts.iter().map(|text| text.parse().unwrap()).collect();
            Portals::new(&all)
        };
        let two = portals(&["a:1,7", "[2001:db8::7]:2,7"]).unwrap();
        assert_eq!(two.group(), 7);
        assert_eq!(two.of("local:3".to_owned()), ["a:1", "[2001:db8::7]:2"]);
        assert_eq!(portals(&["a:1,7", "b:2"]), Err(PortalError::Groups));
        assert_eq!(portals(&["a:1,7", "b:2,8"]), Err(PortalError::Groups));
        let none = portals(&[]).unwrap();
        assert_eq!(
            (none.group(), none.of("local:3".to_owned())),
            (1, vec!["local:3".to_owned()])
        );
    }
}
