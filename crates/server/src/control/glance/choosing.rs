//! What is told where there is not room for all: the busiest, and something of every tenant.

use std::collections::HashSet;

/// Chooses among entries that are ordered by rank, busiest first: a third of the places goes to the busiest of all, then the
/// busiest entry of each tenant that has none yet gets one, and the rest goes by rank again. So a caller who may see only its
/// own tenants does not see nothing because others are busier. `tenants` are the tenants of the entries. Returns how many
/// entries are chosen at most, and for each entry whether it is.
pub(super) fn chosen<'t>(tenants: impl ExactSizeIterator<Item = Option<&'t str>>, most: usize) -> Vec<bool> {
    let count = tenants.len();
    if count <= most {
        return vec![true; count];
    }
    let first = most / 3;
    let mut chosen = vec![false; count];
    chosen[..first].fill(true);
    let (mut left, mut present) = (most - first, HashSet::new());
    for (place, tenant) in tenants.enumerate() {
        if left == 0 {
            break;
        }
        let is_new = tenant.is_some_and(|tenant| present.insert(tenant));
        if is_new && place >= first {
            chosen[place] = true;
            left -= 1;
        }
    }
    let rest = chosen.iter_mut().filter(|chosen| !**chosen).take(left);
    rest.for_each(|chosen| *chosen = true);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_and_the_busiest_of_each_tenant_are_chosen() {
        let tenants = [None, Some("a"), Some("a"), Some("a"), None, Some("b"), Some("b"), Some("c"), None];
        let places = |most: usize| -> Vec<usize> {
            let chosen = chosen(tenants.into_iter(), most);
            (0..tenants.len()).filter(|place| chosen[*place]).collect()
        };
        assert_eq!(places(9), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(places(6), [0, 1, 2, 3, 5, 7], "a is among the busiest");
        assert_eq!(places(3), [0, 1, 5], "there is no room for c");
        assert_eq!(places(1), [1]);
        assert_eq!(places(0), [0; 0]);
        let nobodys = chosen([None; 9].into_iter(), 4);
        assert_eq!(nobodys, [true, true, true, true, false, false, false, false, false], "by rank");
    }
}
