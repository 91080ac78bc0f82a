//! Serves one connection from its first login request to its end. The server runs one session per
//! connection.
//!
//! Invariant: a client can end at most its own session. Before the login is complete it costs one
//! input buffer, and a limited time. A confirmed session is registered and has its target's units.

mod commands;
mod data_out;
mod full_feature;
mod incoming;
mod jobs;
mod registered;
#[cfg(test)]
mod silence_tests;
mod state;
mod tasks;
mod texts;

use crate::answers::Segments;
use crate::denials::Denials;
use crate::login::keys::{Parameters, SEGMENT_BYTES_DEFAULT};
use crate::login::{Agreed, Denial, Login, Names, Rules, Status, Step};
use crate::registry::{Entry, Registry};
use crate::replies::{Format, Numbering, Replies};
use crate::scsi::unit::Properties;
use crate::sender::Sender;
use crate::targets::{Credentials, Denied, TargetAccess, Targets};
use crate::wire::pdu::{HEADER_BYTES, PduHeader, padding, request, response};
use crate::workers::SessionService;
use connections::Workers;
use connections::{
    Disconnected, End, Habits, Input, SESSION_OUTPUT_BYTES, SessionContext, Share, Tally,
};
use media::Random;
use registered::Registered;
use state::FullFeature;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Maximum number of requests of one login. Usual initiators send fewer than ten.
const LOGIN_REQUESTS_MAX: u32 = 64;

/// Context of a session: its connection and its server.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    /// Differs between all sessions of a registry.
    pub(crate) number: u64,
    /// Number of its server in the registry.
    pub(crate) server: u64,
    pub(crate) targets: Arc<dyn Targets>,
    pub(crate) discovery: TargetAccess,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) registry: Arc<Registry>,
    /// The initiator may be on another machine.
    pub(crate) is_remote: bool,
    pub(crate) denials: Arc<Denials>,
    /// Address and port of the initiator.
    pub(crate) peer: String,
    /// Addresses and ports of this target, as initiators connect to them.
    pub(crate) portals: Vec<String>,
    /// Time without a request after which the initiator is asked for a sign of life, and the time
    /// that it has for that.
    pub(crate) idle_limit: Duration,
    pub(crate) units: Properties,
    /// Memory for data that initiators send without being asked.
    pub(crate) bursts: Arc<Share>,
}

impl Session {
    /// Serves until the end and returns the result.
    pub(crate) fn run(&self) -> End {
        let mut input = Input::new();
        let sender = Arc::new(Sender::new(self.context.connection.clone()));
        let login = self.login(&mut input, &sender);
        self.context.finish(login, |(registered, parameters)| {
            self.serve(&registered, parameters, &sender, input)
        })
    }

    /// Lets the initiator log in; `None` if it disconnected before it began.
    fn login(
        &self,
        input: &mut Input,
        sender: &Arc<Sender>,
    ) -> Result<Option<(Registered<'_>, Parameters)>, Disconnected> {
        let until = self.context.begin_handshake()?;
        let mut login = Login::new(Rules {
            targets: &*self.targets,
            discovery: &self.discovery,
            random: &*self.random,
            is_remote: self.is_remote,
            portal_group: self.units.portal_group,
        });
        let mut replies = Replies::new(SESSION_OUTPUT_BYTES, Format::default());
        for requests in 0..LOGIN_REQUESTS_MAX {
            if self.context.need(input, HEADER_BYTES, until).is_err() {
                // A probe that only connects is no failed login.
                let is_probe = requests == 0 && input.available().is_empty();
                return if is_probe {
                    Ok(None)
                } else {
                    Err(Disconnected)
                };
            }
            let header = PduHeader::decode(input.available()).ok_or(Disconnected)?;
            let len = header.data_bytes();
            let is_login = header.operation() == request::LOGIN;
            if !is_login || len > SEGMENT_BYTES_DEFAULT as usize || header.0[4] != 0 {
                return Err(Disconnected);
            }
            if requests == 0 {
                sender.window.start(header.u32_at::<24>());
            }
            let total = HEADER_BYTES + len + padding(len);
            self.context.need(input, total, until)?;
            let data = input.peek(HEADER_BYTES, len).unwrap_or_default();
            let step = login.request(&header, data);
            input.consume(total);
            if let Step::Refuse(status) = step {
                if matches!(status, Status::AuthenticationFailed | Status::NotAuthorized) {
                    self.context
                        .counters
                        .handshakes_denied
                        .fetch_add(1, Relaxed);
                }
                self.report(&login.reason(status), login.asked());
                return self.refuse(&header, status, sender);
            }
            if let Step::Done { flags, text } = step {
                let agreed = login.agreed().ok_or(Disconnected)?;
                return self
                    .complete(&header, (flags, text), agreed, sender)
                    .map(Some);
            }
            if let Step::Reply { flags, text } = step {
                replies.push(answer(&header, flags), Numbering::Takes, &text);
                sender.send(&mut replies)?;
            }
            if self.context.connection.closing() {
                return Ok(None);
            }
        }
        Err(Disconnected)
    }

    /// Reports a denied login to the log. `asked` has the names of the initiator and its target.
    fn report(&self, reason: &str, asked: (Option<&str>, Option<&str>)) {
        if let Some(unreported) = self.denials.admit(Instant::now()) {
            let (initiator, target) = asked;
            self.targets.denied(&Denied {
                address: &self.peer,
                initiator,
                target,
                reason,
                unreported,
            });
        }
    }

    fn refuse<T>(
        &self,
        header: &PduHeader,
        status: Status,
        sender: &Sender,
    ) -> Result<T, Disconnected> {
        let mut replies = Replies::new(0, Format::default());
        let answer = answer(header, 0).with_u16::<36>(status as u16);
        replies.push(answer, Numbering::Takes, &[]);
        sender.send(&mut replies)?;
        Err(Disconnected)
    }

    /// Registers the session, which ends the initiator port's old one, opens its target, and only
    /// then confirms the login.
    fn complete(
        &self,
        header: &PduHeader,
        (flags, text): (u8, Vec<u8>),
        agreed: Agreed,
        sender: &Arc<Sender>,
    ) -> Result<(Registered<'_>, Parameters), Disconnected> {
        // From now on it is not dropped for a newcomer.
        if !self.context.connection.admit() {
            return Err(Disconnected);
        }
        let Agreed {
            names,
            proof,
            parameters,
        } = agreed;
        let entry = Entry {
            names: names.clone(),
            proof: proof.clone(),
            connection: self.context.connection.clone(),
            sender: sender.clone(),
            format: parameters.format(),
            server: self.server,
        };
        let entered = Registered::enter(self, entry).and_then(|registered| {
            // The rules may have changed since it proved who it is. A caller that changes them
            // from now on finds the session.
            match self.is_admitted(&names, proof.as_ref()) {
                true => Ok(registered),
                false => Err(Status::NotAuthorized.into()),
            }
        });
        let registered = match entered {
            Ok(registered) => registered,
            Err(Denial { status, reason }) => {
                let asked = (Some(&*names.initiator), names.target.as_deref());
                self.report(&reason, asked);
                return self.refuse(header, status, sender);
            }
        };
        let mut replies = Replies::new(0, Format::default());
        // 0 stands for no session.
        let handle = (self.number % 0xffff) as u16 + 1;
        let answer = answer(header, flags).with_u16::<14>(handle);
        replies.push(answer, Numbering::Takes, &text);
        sender.confirm(&mut replies)?;
        Ok((registered, parameters))
    }

    /// Returns true if the rules of now let an initiator in that has proved this.
    fn is_admitted(&self, names: &Names, proof: Option<&Credentials>) -> bool {
        let access = match &names.target {
            Some(target) => self.targets.access(target),
            None => self.targets.discovery(),
        };
        access.is_none_or(|access| access.admits_proof(&names.initiator, proof))
    }

    fn serve(
        &self,
        registered: &Registered<'_>,
        parameters: Parameters,
        sender: &Arc<Sender>,
        input: Input,
    ) -> End {
        let context = &self.context;
        let stream = &context.connection.stream;
        let ready = stream.set_recv_timeout(Some(self.idle_limit));
        let ready = ready.and_then(|()| stream.set_send_timeout(Some(context.limits.send_limit)));
        if ready.is_err() {
            return End::Dropped;
        }
        let (format, units) = (parameters.format(), registered.units());
        let service = SessionService {
            nexus: registered.nexus().clone(),
            sender: sender.clone(),
            connection: context.connection.clone(),
            counters: context.counters.clone(),
            segments: Segments::new(parameters.send_bytes, parameters.burst_bytes),
            format,
            reads: context.reads.clone(),
        };
        let workers = Workers::new(service, context.threads.clone());
        workers.service().nexus.tasks.wake_with(workers.waker());
        let mut full_feature = FullFeature {
            session: self,
            names: &registered.names,
            parameters,
            numbers: units.iter().map(|(number, _)| *number).collect(),
            units: units.to_vec(),
            workers,
            replies: Replies::new(SESSION_OUTPUT_BYTES, format),
            tally: Tally::default(),
            arrived: Instant::now(),
            incoming: Default::default(),
            habits: Habits::default(),
            taken: 0,
            half_since: None,
            is_pinged: false,
            text: None,
        };
        let end = full_feature.run(input).unwrap_or(End::Dropped);
        let flushed = full_feature.flush();
        // Commands behind a write whose data no longer comes would never begin.
        full_feature.workers.cancel_held();
        full_feature.incoming.abort(None, None);
        // Nor would one that fills a whole range be waited for.
        registered.nexus().tasks.stop_running();
        full_feature.workers.finish();
        match flushed {
            Ok(()) => end,
            Err(Disconnected) => End::Dropped,
        }
    }
}

/// Returns a Login Response without data.
fn answer(header: &PduHeader, flags: u8) -> PduHeader {
    let mut answer = PduHeader::new(response::LOGIN, flags).with_tag(header.tag());
    // The initiator's session identifier, and its handle of the session.
    answer.0[8..16].copy_from_slice(&header.0[8..16]);
    answer
}
