//! Sends a notification to a URL. [`super::deliver`] calls this.
//!
//! Invariant: one request of ten seconds at most. No redirect is followed: it could lead to another
//! scheme or host. A certificate must be valid for the authorities that this machine trusts.

use super::{Notification, Subject};
use configuration::{Event, Format};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use terminal::environment::Environment;
use ureq::Agent;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

const LIMIT: Duration = Duration::from_secs(10);
/// Certificates of authorities: Debian, Fedora, openSUSE, Alpine.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The variable that OpenSSL reads for the same.
const AUTHORITIES_VARIABLE: &str = "SSL_CERT_FILE";

/// Sends it. Returns the answer, or the reason of the failure.
pub fn post(
    environment: &Environment,
    url: &str,
    format: Format,
    notification: &Notification,
) -> Result<String, String> {
    post_within(environment, url, format, notification, LIMIT)
}

fn post_within(
    environment: &Environment,
    url: &str,
    format: Format,
    notification: &Notification,
    limit: Duration,
) -> Result<String, String> {
    let url = match (format, notification.subject) {
        (Format::Healthchecks, Subject::Problem(_)) => failure_url(url),
        _ => url.to_owned(),
    };
    let agent = agent(environment, &url, limit)?;
    let request = agent.post(&url);
    let (request, body) = match format {
        Format::Json => {
            let request = request.content_type("application/json");
            (request, notification.json())
        }
        Format::Ntfy => {
            let request = request
                .header("Title", ascii(&notification.title()))
                .header("Priority", priority(notification.subject));
            (request, notification.short_text().to_owned())
        }
        Format::Healthchecks => {
            let text = format!("{}: {}", notification.title(), notification.short_text());
            (request, text)
        }
    };
    let answer = request.send(body).map_err(|e| reason(&e, limit))?;
    let status = answer.status();
    match status.as_u16() {
        200..300 => Ok(format!("answered {status}")),
        300..400 => {
            let to = answer.headers().get("location");
            let to = to
                .and_then(|to| to.to_str().ok())
                .map_or("elsewhere", |to| to);
            Err(format!(
                "answered {status}, a redirect to {}; give that URL",
                host_of(to)
            ))
        }
        _ => Err(format!("answered {status}")),
    }
}

fn agent(environment: &Environment, url: &str, limit: Duration) -> Result<Agent, String> {
    let config = Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("quintet/", env!("CARGO_PKG_VERSION")));
    if !url.starts_with("https:") {
        return Ok(config.build().new_agent());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(authorities(environment)?);
    Ok(config
        .https_only(true)
        .tls_config(tls.build())
        .build()
        .new_agent())
}

/// Returns the authorities that this machine trusts.
fn authorities(environment: &Environment) -> Result<RootCerts, String> {
    let file = match environment.value(AUTHORITIES_VARIABLE) {
        Some(file) => PathBuf::from(file),
        None => {
            let known = AUTHORITIES.iter().map(PathBuf::from);
            let none = "no certificates of authorities are installed; install ca-certificates, or set SSL_CERT_FILE";
            known.into_iter().find(|file| file.is_file()).ok_or(none)?
        }
    };
    let cannot = |why: String| format!("cannot read the authorities in {}: {why}", file.display());
    let text = std::fs::read(&file).map_err(|e| cannot(units::reason(&e)))?;
    // One certificate that cannot be parsed does not take the trust in the others.
    let certificates: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    match certificates.is_empty() {
        true => Err(cannot("it has no certificate".to_owned())),
        false => Ok(RootCerts::from(certificates)),
    }
}

/// Returns the URL of healthchecks that reports a problem.
fn failure_url(url: &str) -> String {
    let (path, query) = match url.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (url, String::new()),
    };
    format!("{}/fail{query}", path.trim_end_matches('/'))
}

/// Returns the scheme and host of a URL. The rest may be a secret.
pub fn host_of(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "another path".to_owned();
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// Returns the priority of ntfy: 3 is the default, 5 the highest.
fn priority(subject: Subject) -> &'static str {
    match subject {
        Subject::Problem(Event::Damage) => "5",
        Subject::Problem(_) => "4",
        Subject::Success | Subject::Test => "3",
    }
}

/// Headers are ASCII.
fn ascii(text: &str) -> String {
    let plain = |c: char| if (' '..='~').contains(&c) { c } else { '?' };
    text.chars().map(plain).collect()
}

fn reason(error: &ureq::Error, limit: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no answer within {} s", limit.as_secs()),
        ureq::Error::Io(e) => units::reason(e),
        ureq::Error::HostNotFound => "the name of the host is not known".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_have_a_url_of_their_own() {
        assert_eq!(failure_url("https://h/x"), "https://h/x/fail");
        assert_eq!(failure_url("https://h/x/?a=b"), "https://h/x/fail?a=b");
    }

    #[test]
    fn messages_name_the_host_only() {
        assert_eq!(host_of("https://user:word@h:8/topic?key"), "https://h:8");
        assert_eq!(host_of("http://h"), "http://h");
        assert_eq!(host_of("/login"), "another path");
    }

    #[test]
    fn a_server_that_does_not_answer_is_not_waited_for() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x", silent.local_addr().unwrap());
        let test = Notification {
            subject: Subject::Test,
            job: "notify".to_owned(),
            code: None,
            text: "test".to_owned(),
            pool: "/p".to_owned(),
            host: "h".to_owned(),
            time: units::UnixNanos(0),
        };
        let environment = Environment::of(&[]);
        let limit = Duration::from_secs(1);
        for format in [Format::Json, Format::Ntfy, Format::Healthchecks] {
            let answer = post_within(&environment, &url, format, &test, limit);
            assert_eq!(answer, Err("no answer within 1 s".to_owned()));
        }
    }

    #[test]
    fn authorities_come_from_this_machine() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("empty.pem");
        let of = |file: &std::path::Path| {
            let environment = Environment::of(&[(AUTHORITIES_VARIABLE, file.to_str().unwrap())]);
            authorities(&environment).err().unwrap()
        };
        assert!(of(&file).contains("no such file"));
        std::fs::write(&file, "words").unwrap();
        assert!(of(&file).ends_with("it has no certificate"));
    }
}
