//! Classes of I/O in a server: the policy in force, and what each class did. The program sets the
//! policy; `status`, the metrics and `policy advise` read it.
//!
//! Invariant: one policy for classifiers, page cache and fast tier, which may have settings of its
//! own in it. While none is in force, all classes are equal in every cache.

use classes::{
    CLASSES, ClassCounts, ClassSettings, Classified, Classifiers, LayoutStatus, Policy, Tuner,
    Tuning,
};
use page_cache::ClassCounters;
use parking_lot::Mutex;
use ssd_tier::{CacheClass, Kind};
use std::sync::Arc;
use store::Pool;
use units::{IoClass, SnapshotId, VolumeId};
use volume::Volume;
use volumes::Volumes;

/// The policy in force, and the name under which it was set.
#[derive(Clone, Debug)]
pub struct PolicyInForce {
    /// Name of a policy that ships, or path of a file.
    pub name: String,
    /// The policy.
    pub policy: Arc<Policy>,
}

/// Reading of one class of the policy in force.
#[derive(Clone, Debug)]
pub struct ClassReading {
    /// Number of the class.
    pub class: IoClass,
    /// Its rule.
    pub rule: String,
    /// How the page cache treats it.
    pub settings: ClassSettings,
    /// How the fast tier treats it.
    pub fast: ClassSettings,
    /// Requests since the server began.
    pub requests: ClassCounts,
    /// The page cache.
    pub cache: ClassCounters,
    /// Chunks read from the fast tier.
    pub tier_hits: u64,
    /// Bytes written to the fast tier.
    pub tier_written_bytes: u64,
}

/// Reading of all classes.
#[derive(Clone, Debug)]
pub struct ClassesReading {
    /// Name of the policy.
    pub policy: String,
    /// Classes of the policy, by number; class 0 is first.
    pub classes: Vec<ClassReading>,
    /// Knowledge of the blocks of volumes that clients use.
    pub layouts: Vec<LayoutStatus>,
    /// Changes by auto, if it is in force.
    pub auto: Option<Tuning>,
}

/// The classes of a server. See the module's head.
pub struct ServedClasses {
    pub(super) pool: Arc<Pool>,
    volumes: Arc<Volumes>,
    /// Give requests their classes.
    pub classifiers: Arc<Classifiers>,
    pub(super) policy: Mutex<Option<PolicyInForce>>,
    /// Set while the server divides the fast tier itself. Locked after the policy.
    pub(super) auto: Mutex<Option<Tuner>>,
}

impl ServedClasses {
    /// `layouts_bytes` limits what is learned of the blocks of volumes.
    pub(super) fn new(volumes: &Arc<Volumes>, layouts_bytes: u64) -> Self {
        Self {
            pool: Arc::clone(volumes.pool()),
            volumes: Arc::clone(volumes),
            classifiers: Arc::new(Classifiers::new(layouts_bytes)),
            policy: Mutex::default(),
            auto: Mutex::default(),
        }
    }

    /// Puts a policy in force, from the next request on; `None` ends the one in force.
    pub fn set_policy(&self, new: Option<PolicyInForce>) {
        let mut in_force = self.policy.lock();
        let policy = new.as_ref().map(|new| Arc::clone(&new.policy));
        let obeyed = policy.clone().unwrap_or_default();
        self.volumes.set_classes(obeyed.all_settings());
        *self.auto.lock() = None;
        self.obey_in_tier(&obeyed.all_fast_settings());
        self.classifiers.set(policy);
        if let Some(tier) = self.pool.fast_tier() {
            tier.forget_evidence();
        }
        *in_force = new;
    }

    pub(super) fn obey_in_tier(&self, settings: &[ClassSettings; CLASSES]) {
        if let Some(tier) = self.pool.fast_tier() {
            let of_kinds = tier.settings();
            tier.set_settings(of_kinds.with_classes(*settings));
        }
    }

    /// Returns the policy in force.
    pub fn policy(&self) -> Option<PolicyInForce> {
        self.policy.lock().clone()
    }

    /// Reads what each class did. `None` without a policy.
    pub fn read(&self) -> Option<ClassesReading> {
        let PolicyInForce { name, policy } = self.policy()?;
        let (requests, cache) = (self.classifiers.counts(), self.volumes.class_counters());
        let tier = self.pool.fast_tier().map(|tier| tier.status());
        let auto = self.auto.lock();
        let tuned = auto.as_ref().map(Tuner::settings);
        let in_tier = |class: IoClass| {
            let of_data = CacheClass::new(Kind::Data, class);
            let mut all = tier.iter().flat_map(|status| &status.classes);
            let of = all.find(|of| of.class == of_data);
            of.map_or((0, 0), |of| (of.hits, of.bytes_written))
        };
        let reading = |(class, rule): (IoClass, &str)| {
            let number = usize::from(class.0);
            let (tier_hits, tier_written_bytes) = in_tier(class);
            ClassReading {
                class,
                rule: rule.to_owned(),
                settings: policy.settings(class),
                fast: tuned
                    .and_then(|all| all.get(number).copied())
                    .unwrap_or_else(|| policy.fast_settings(class)),
                requests: requests.get(number).copied().unwrap_or_default(),
                cache: cache.get(number).copied().unwrap_or_default(),
                tier_hits,
                tier_written_bytes,
            }
        };
        Some(ClassesReading {
            policy: name,
            classes: policy.classes().map(reading).collect(),
            layouts: self.classifiers.layouts(),
            auto: auto.as_ref().map(Tuner::tuning),
        })
    }

    /// Puts the classifier before a volume.
    pub fn classify_volume<V: Volume + 'static>(
        &self,
        id: VolumeId,
        name: &str,
        volume: V,
    ) -> Classified<V> {
        let key = format!("volume {id}");
        Classified::new(&self.classifiers, &key, name, volume)
    }

    /// The same for a snapshot or an image: those who have it open share what is learned.
    pub fn classify_state<V: Volume + 'static>(
        &self,
        id: SnapshotId,
        name: &str,
        volume: V,
    ) -> Classified<V> {
        let key = format!("state {id}");
        Classified::new(&self.classifiers, &key, name, volume)
    }

    /// Forgets what is known of the blocks of a volume: it has other contents now, and nobody wrote
    /// them.
    pub fn forget_layout(&self, id: VolumeId) {
        self.classifiers.forget(&format!("volume {id}"));
    }
}
