//! Zones by name: their ids and what their plans allow, remembered so that a pass asks for the list once.

use super::client::{Api, Page};
use crate::{
    misses::{BY_NAME, Misses},
    name::Name,
};
use reconciled_provider::{Cx, Error};
use serde::Deserialize;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Zones in one answer; more are refused.
const PER_PAGE: usize = 50;

/// What the plan of a zone allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Operations in one batch.
    pub(crate) batch: usize,
    /// Characters in a comment.
    pub(crate) longest_comment: usize,
    /// Records can have tags.
    pub(crate) has_tags: bool,
}

/// What every plan allows.
const FREE: Plan = Plan { batch: 200, longest_comment: 100, has_tags: false };
const PAID: Plan = Plan { batch: 3_500, longest_comment: super::dialect::LONGEST_COMMENT, has_tags: true };

/// A zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// Id that Cloudflare assigned.
    pub(crate) id: String,
    /// What can be written.
    pub(crate) plan: Plan,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ZoneBody {
    id: String,
    /// Canonical, once it went through [`list`].
    pub(crate) name: String,
    #[serde(default)]
    plan: PlanBody,
}

#[derive(Debug, Default, Deserialize)]
struct PlanBody {
    #[serde(default)]
    legacy_id: Option<String>,
}

impl ZoneBody {
    pub(crate) fn zone(&self) -> Zone {
        let plan = match self.plan.legacy_id.as_deref() {
            Some("pro" | "business" | "enterprise") => PAID,
            // A plan nobody has heard of may be as small as the smallest.
            _ => FREE,
        };
        Zone { id: self.id.clone(), plan }
    }
}

/// The zones that were seen.
#[derive(Debug, Default)]
pub(crate) struct Zones(Mutex<HashMap<String, Zone>>, Misses);

impl Zones {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Zone>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A zone that was seen.
    pub(crate) fn remembered(&self, name: &str) -> Option<Zone> {
        self.known().get(name).cloned()
    }
    /// Keeps a zone that was just created.
    pub(crate) fn remember(&self, name: &str, zone: Zone) {
        self.known().insert(name.to_owned(), zone);
    }
    /// Lets go of a zone that is not what it was.
    pub(crate) fn forget(&self, name: &str) {
        self.known().remove(name);
    }
    /// Remembers that this zone takes at most `batch` operations in a request.
    pub(crate) fn learn_batch(&self, name: &str, batch: usize) {
        if let Some(zone) = self.known().get_mut(name) {
            zone.plan.batch = zone.plan.batch.min(batch).max(1);
        }
    }

    /// A zone, looked up where it was not seen; none when the token sees no zone of that name.
    pub(crate) async fn find(&self, api: &Api, cx: &Cx, name: &str) -> Result<Option<Zone>, Error> {
        let mut turn = self.1.turn().await;
        if let Some(zone) = self.remembered(name) {
            return Ok(Some(zone));
        }
        if turn.is_listed {
            return Ok(None);
        }
        if !turn.is_for_all() {
            return self.look_up(api, cx, name).await;
        }
        let bodies = list(api, cx, &[]).await?;
        turn.listed();
        let names: Vec<&str> = bodies.iter().map(|body| &*body.name).collect();
        self.take(&bodies, &names);
        // Which of several is meant is said by the one look-up that asks.
        match names.iter().filter(|one| **one == name).count() {
            0 => Ok(None),
            1 => Ok(self.remembered(name)),
            _ => self.look_up(api, cx, name).await,
        }
    }

    /// Looks one zone up by its name; none when the token sees no zone of that name.
    pub(crate) async fn look_up(&self, api: &Api, cx: &Cx, name: &str) -> Result<Option<Zone>, Error> {
        let is_it = |body: &&ZoneBody| body.name == name;
        let mut found = list(api, cx, &[("name", name)]).await?;
        // International names are listed as they are read, and nothing says in which form they are looked up.
        if name.contains("xn--") && !found.iter().any(|body| is_it(&body)) {
            found = list(api, cx, &[]).await?;
        }
        let mut found = found.iter().filter(is_it);
        let (first, second) = (found.next(), found.next());
        if second.is_some() {
            let text =
                format!("look up zone {name} at {}: the token sees several of that name", api.address());
            return Err(Error::invalid(text).hint("write `account: ID` into the entry"));
        }
        match first {
            Some(body) => {
                // What was learnt of a zone stays true while it is the same zone.
                let zone = match self.remembered(name) {
                    Some(old) if old.id == body.id => old,
                    _ => body.zone(),
                };
                self.remember(name, zone.clone());
                Ok(Some(zone))
            }
            None => {
                self.forget(name);
                Ok(None)
            }
        }
    }

    /// Looks many zones up, in as few calls as there may be; returns which of `names` exist.
    pub(crate) async fn look_up_all(&self, api: &Api, cx: &Cx, names: &[&str]) -> Result<Vec<bool>, Error> {
        if names.len() <= BY_NAME {
            let mut exist = Vec::with_capacity(names.len());
            for name in names {
                exist.push(self.look_up(api, cx, name).await?.is_some());
            }
            return Ok(exist);
        }
        let bodies = list(api, cx, &[]).await?;
        Ok(self.take(&bodies, names))
    }

    /// Remembers those of `names` that are listed, and returns which exist.
    fn take(&self, bodies: &[ZoneBody], names: &[&str]) -> Vec<bool> {
        let mut by_name: HashMap<String, Vec<&ZoneBody>> = HashMap::new();
        for body in bodies {
            by_name.entry(body.name.clone()).or_default().push(body);
        }
        let mut known = self.known();
        let exists = |name: &&str| match by_name.get(*name).map(Vec::as_slice) {
            Some([only]) => {
                // What was learnt of a zone stays true while it is the same zone.
                let zone = only.zone();
                let is_same = known.get(*name).is_some_and(|old| old.id == zone.id);
                if !is_same {
                    known.insert((*name).to_owned(), zone);
                }
                true
            }
            // Reading it says what is wrong.
            Some(_) => {
                known.remove(*name);
                true
            }
            None => {
                known.remove(*name);
                false
            }
        };
        names.iter().map(exists).collect()
    }
}

/// The name of a zone as scopes have it: in lower case and ASCII. What is no name stays as it is.
pub(crate) fn canonical(name: &str) -> String {
    Name::zone(name).map_or_else(|_| name.to_ascii_lowercase(), |name| name.without_dot().to_owned())
}

/// Every zone that the token sees and that fits `filter`, all of them or an error.
pub(crate) async fn list(api: &Api, cx: &Cx, filter: &[(&str, &str)]) -> Result<Vec<ZoneBody>, Error> {
    let (mut all, mut ids, mut total) = (Vec::new(), HashSet::new(), None);
    let moved =
        || Error::unavailable(format!("list zones at {}: the list changed while it was read", api.address()));
    for number in 1.. {
        let page: Page<ZoneBody> = api.page(cx, "/zones", filter, number, PER_PAGE, "list zones").await?;
        if *total.get_or_insert(page.total) != page.total {
            return Err(moved());
        }
        for mut body in page.items {
            if !ids.insert(body.id.clone()) {
                return Err(moved());
            }
            body.name = canonical(&body.name);
            all.push(body);
        }
        if number >= page.pages {
            break;
        }
    }
    // A page that is shorter than it was said to be would make zones look absent.
    if total == Some(all.len()) { Ok(all) } else { Err(moved()) }
}
