//! What the made-up clients of the demo ask for: a seed and the time decide everything.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

/// The rate for which the numbers of the crowds and of the policy are made: decisions a second.
pub(crate) const USUAL_RATE: u32 = 300;

/// A user that asks for far more than its limit.
const SYNC_USER: &str = "sync@acme-games";
/// The same, with an override.
pub(super) const NIGHTLY_USER: &str = "nightly@initech";
/// A user that is blocked.
pub(super) const BLOCKED_USER: &str = "mallory@globex-us";
/// The address that copies the catalogue now and then.
const SCRAPER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 66);
/// The address that guesses passwords.
const GUESSER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
/// The address of the monitoring, which the policy allows.
const PROBE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// Addresses that the policy blocks begin here.
const BLOCKED_NETWORK: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 128);

/// The customers of each shop.
const NAMES: [&str; 10] = ["ana", "ben", "carla", "dilan", "elif", "femi", "grace", "hugo", "ines", "jonas"];

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The customers of a tenant, and one that asks for many times as much as each of the others.
    Shop {
        tenant: &'static str,
        heavy_user: Option<&'static str>,
    },
    Scraper,
    Guesser,
    Login,
    Probe,
    BlockedNetwork,
    BlockedUser,
}

/// Some clients, and how busy they are.
struct Crowd {
    sender: Sender,
    /// Requests a second, on average and at the usual rate.
    rate: u64,
    /// By how many percent it rises and falls.
    swing: u64,
    /// How long a rise and a fall take, in seconds.
    period: u64,
}

const fn shop(
    tenant: &'static str,
    heavy_user: Option<&'static str>,
    rate: u64,
    swing: u64,
    period: u64,
) -> Crowd {
    Crowd { sender: Sender::Shop { tenant, heavy_user }, rate, swing, period }
}

const fn steady(sender: Sender, rate: u64) -> Crowd {
    Crowd { sender, rate, swing: 0, period: 1 }
}

/// Together the shops of acme, and those of globex, want more than their partner has.
const CROWDS: [Crowd; 13] = [
    shop("acme-books", None, 55, 40, 210),
    shop("acme-games", Some(SYNC_USER), 48, 50, 130),
    shop("acme-media", None, 16, 30, 90),
    shop("globex-eu", Some("import@globex-eu"), 32, 40, 170),
    shop("globex-us", None, 28, 40, 110),
    shop("globex-asia", None, 12, 60, 70),
    shop("initech", Some(NIGHTLY_USER), 30, 30, 100),
    steady(Sender::Scraper, 40),
    steady(Sender::Guesser, 1),
    steady(Sender::Login, 4),
    steady(Sender::Probe, 3),
    steady(Sender::BlockedNetwork, 2),
    steady(Sender::BlockedUser, 2),
];

/// The scraper is at work for some seconds, and then away: seconds.
const SCRAPER_PERIOD: u64 = 150;
const SCRAPER_BEGINS: u64 = 5;
const SCRAPER_ENDS: u64 = 45;

impl Crowd {
    /// Requests in a thousand seconds at the usual rate, as of this time.
    fn rate_at(&self, at: Duration) -> u64 {
        let seconds = at.as_secs();
        if self.sender == Sender::Scraper
            && !(SCRAPER_BEGINS..SCRAPER_ENDS).contains(&(seconds % SCRAPER_PERIOD))
        {
            return 0;
        }
        // From 0 to 1000 and back again in each period, beginning in the middle of the rise.
        let place = (seconds % self.period) * 2_000 / self.period + 500;
        let height = match place % 2_000 {
            rise @ 0..=1_000 => rise,
            fall => 2_000 - fall,
        };
        self.rate * (1_000 - self.swing * 10 + height * self.swing * 20 / 1_000)
    }
}

/// The requests of one connection.
pub(super) struct Traffic(SeededNumbers);

impl Traffic {
    pub(super) fn new(seed: u64) -> Traffic {
        Traffic(SeededNumbers(seed))
    }

    /// The body of the next request, this long after the start; `None` if nobody asks.
    pub(super) fn next(&mut self, at: Duration) -> Option<Value> {
        let rates = CROWDS.map(|crowd| crowd.rate_at(at));
        let busy: u64 = rates.iter().sum();
        let mut drawn = self.0.below(busy.max(u64::from(USUAL_RATE) * 1_000));
        for (crowd, rate) in CROWDS.iter().zip(rates) {
            if drawn < rate {
                return Some(self.request(crowd.sender));
            }
            drawn -= rate;
        }
        None
    }

    fn request(&mut self, sender: Sender) -> Value {
        match sender {
            Sender::Shop { tenant, heavy_user } => self.shop_request(tenant, heavy_user),
            Sender::Scraper => {
                let path = format!("/api/products/{}", self.0.below(100_000));
                json!({ "ip": SCRAPER, "client": "unknown", "method": "GET", "path": path })
            }
            Sender::Guesser => json!({ "ip": GUESSER, "method": "POST", "path": "/login" }),
            Sender::Login => {
                let ip = format!("198.51.100.{}", self.0.below(250));
                json!({ "ip": ip, "client": "web", "method": "POST", "path": "/login" })
            }
            Sender::Probe => json!({ "ip": PROBE, "method": "GET", "path": "/api/products" }),
            Sender::BlockedNetwork => {
                let ip = Ipv4Addr::from_bits(BLOCKED_NETWORK.to_bits() + self.0.below(100) as u32);
                json!({ "ip": ip, "method": "GET", "path": "/api/search" })
            }
            Sender::BlockedUser => json!({
                "tenant": "globex-us", "user": BLOCKED_USER, "ip": "198.51.100.251", "client": "web", "method": "POST",
                "path": "/api/orders/1"
            }),
        }
    }

    fn shop_request(&mut self, tenant: &str, heavy_user: Option<&str>) -> Value {
        // The smaller of two numbers, so that some users are busier than others.
        let name = self.0.below(NAMES.len() as u64).min(self.0.below(NAMES.len() as u64)) as usize;
        let user = match heavy_user {
            Some(user) if self.0.below(3) == 0 => user.to_owned(),
            _ => format!("{}@{tenant}", NAMES[name]),
        };
        // Shops have a network each, of those that are set aside for tests.
        let network = tenant.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        let ip = Ipv4Addr::new(198, 18, network, name as u8);
        let client = ["web", "web", "ios", "android", "partner-api"][self.0.below(5) as usize];
        let mut request =
            json!({ "tenant": tenant, "user": user, "ip": ip, "client": client, "method": "GET" });
        let path = match self.0.below(100) {
            0..45 => "/api/products",
            45..63 => "/api/search",
            63..72 => "/api/cart",
            72..80 => "/api/orders/17",
            80..92 => "/api/recommendations",
            92..98 => {
                let kilotokens = 1 + self.0.below(9);
                request["headers"] = json!({ "x-kilotokens": kilotokens.to_string() });
                "/api/assistant"
            }
            _ => "/api/exports",
        };
        if path == "/api/orders/17" {
            request["method"] = "POST".into();
        }
        request["path"] = path.into();
        request
    }
}

/// Random numbers that a seed determines (splitmix64).
struct SeededNumbers(u64);

impl SeededNumbers {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The requests of some seconds at the usual rate.
    fn asked(seed: u64, seconds: u64) -> Vec<Value> {
        let mut traffic = Traffic::new(seed);
        let steps = seconds * u64::from(USUAL_RATE);
        let at = |step| Duration::from_secs(step / u64::from(USUAL_RATE));
        (0..steps).filter_map(|step| traffic.next(at(step))).collect()
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(asked(1, 5), asked(1, 5));
        assert_ne!(asked(1, 5), asked(2, 5));
    }

    #[test]
    fn everybody_asks_and_partners_have_less_than_their_shops_want() {
        let seconds = 600;
        let mut by_partner: BTreeMap<String, u64> = BTreeMap::new();
        let (mut scraped, mut guessed) = (0, 0);
        for request in asked(7, seconds) {
            if let Some(tenant) = request["tenant"].as_str() {
                let partner = tenant.split('-').next().unwrap_or_default().to_owned();
                // What the routes of the policy cost.
                let cost = match request["path"].as_str() {
                    Some("/api/search") => 2,
                    Some("/api/orders/17") => 3,
                    _ => 1,
                };
                *by_partner.entry(partner).or_default() += cost;
            }
            scraped += u64::from(request["ip"] == SCRAPER.to_string());
            guessed += u64::from(request["ip"] == GUESSER.to_string());
        }
        assert!(by_partner["acme"] > 150 * seconds, "more than the budget of acme: {by_partner:?}");
        assert!(by_partner["globex"] > 90 * seconds, "more than the pool of globex: {by_partner:?}");
        assert!(by_partner["initech"] < 60 * seconds, "less than the limit of initech: {by_partner:?}");
        assert!(scraped > 4 * 40 * 20, "enough for the burst detector: {scraped}");
        assert!(guessed > 20 * seconds / 60, "more than the limit for logins: {guessed}");
    }
}
