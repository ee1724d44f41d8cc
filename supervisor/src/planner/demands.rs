//! What a profile demands of the kernel besides files: network, limits, and the least that holds.

use policy::{Limit, Profile, Require};
use sandbox::{Isolation, LimitKind, Limits, Network, Requirement};

pub(super) fn network(profile: &Profile) -> Network {
    match profile.network.as_ref().map(|it| it.value) {
        Some(policy::Network::Host) => Network::Host,
        Some(policy::Network::Off) | None => Network::Off,
    }
}

pub(super) fn limits(profile: &Profile) -> Limits {
    let amount = |name: &str| match profile.limits.get(name).map(|it| it.value) {
        Some(Limit::AtMost(amount)) => Some(amount),
        Some(Limit::Unlimited) | None => None,
    };
    Limits {
        processes: amount("processes"),
        memory: amount("memory"),
        cpu_time: amount("cpu_time"),
        file_size: amount("file_size"),
        open_files: amount("open_files"),
        wall_time: amount("wall_time"),
    }
}

pub(super) fn requirement(profile: &Profile) -> Requirement {
    let isolation = match profile.require.as_ref().map(|it| it.value) {
        Some(Require::Landlock) => Isolation::Landlock,
        Some(Require::Full) | None => Isolation::Full,
    };
    let abi = profile.require_landlock.as_ref().map_or(6, |it| it.value);
    Requirement {
        isolation,
        landlock_abi: u32::try_from(abi).unwrap_or(u32::MAX),
        limits: LimitKind::ALL
            .into_iter()
            .filter(|kind| {
                profile
                    .require_limits
                    .iter()
                    .any(|it| it.value == kind.name())
            })
            .collect(),
    }
}
