//! Memory errors between a server's page cache and another pool.

use super::*;
use chunking::Compression;
use media::Media;
use sim::SimDisk;
use sim::pool_histories::init_options;
use store::{LaneOptions, OpenMode, RegionKind};
use units::UnixNanos;

const LANE: LaneOptions = LaneOptions {
    compression: Compression::None,
    region_bytes: 8 << 10,
    container_bytes: 64 << 10,
};

/// A page cache that has everything, with one bit inverted.
struct Failing(Vec<u8>);

impl CachedChunks for Failing {
    fn holds(&self, _: &Fingerprint) -> bool {
        true
    }

    fn copy(&self, _: &Fingerprint, bytes: &mut Vec<u8>) -> bool {
        bytes.clone_from(&self.0);
        true
    }
}

fn pool(seed: u64) -> Arc<Pool> {
    let media = || Media::seeded(SimDisk::new(), UnixNanos::default(), seed);
    let media = media();
    Pool::init(&media, &init_options(&[])).expect("init");
    Arc::new(Pool::open(media, None, OpenMode::Write, 32 << 20).expect("open"))
}

#[test]
fn what_failed_in_the_page_cache_is_read_from_the_device() {
    let (from, to) = (pool(1), pool(2));
    let chunk = vec![7; 4096];
    let mut session = from.begin(LANE).expect("begin");
    let name = session.main().store_chunk(&chunk).expect("store");
    from.commit(session, &[], &[]).expect("commit");
    for flipped in [None, Some(9)] {
        let mut resident = chunk.clone();
        flipped.into_iter().for_each(|at: usize| resident[at] ^= 1);
        let mut carrier = Carrier {
            from: Arc::clone(&from),
            memory: Some(Arc::new(Failing(resident))),
            bytes: Vec::new(),
            to: Receiver::new(Arc::clone(&to), LANE),
            is_one_domain: false,
            counts: CopyCounts::default(),
        };
        let how = (Layout::Fixed(12), RegionKind::Middle, Access::Device);
        let sent = carrier.carry(how, &name, 4096).expect("sent");
        let sent = sent.expect("with the device");
        assert!(to.is_called(&sent, &chunk), "{flipped:?}");
        let counts = carrier.counts;
        assert_eq!(
            counts.cached_bytes,
            if flipped.is_none() { 4096 } else { 0 }
        );
        assert_eq!(counts.read_bytes, if flipped.is_none() { 0 } else { 4096 });
    }
}
