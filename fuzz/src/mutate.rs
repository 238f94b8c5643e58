//! Random changes to an input, small and large.

use crate::Random;
use crate::dictionary::NUMBERS;

/// Longer inputs are truncated: they are slow and find nothing new.
pub(crate) const INPUT_BYTES_MAX: usize = 64 << 10;

/// A copy of one of the pool with a few random changes.
pub(crate) fn mutated(pool: &[Vec<u8>], words: &[&str], random: &mut Random) -> Vec<u8> {
    let mut text = random.pick(pool).clone();
    for _ in 0..=random.index(6) {
        mutate(&mut text, pool, words, random);
        text.truncate(INPUT_BYTES_MAX);
    }
    text
}

fn mutate(text: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&str], random: &mut Random) {
    match random.index(14) {
        0 => flip_bit(text, random),
        1 => insert(text, &[random.bits() as u8], random),
        2 | 3 => insert(text, random.pick(words).as_bytes(), random),
        4 => replace_line_end(text, random.pick(words).as_bytes(), random),
        5 => drop(text.drain(span(text.len(), 40, random))),
        6 => {
            let copy = text[span(text.len(), 200, random)].to_vec();
            insert(text, &copy, random);
        }
        7 => splice(text, &random.pick(pool).clone(), random),
        8 | 9 => replace_number(text, random),
        10 => nest(text, random),
        11 => lengthen(text, random),
        12 => move_line(text, random),
        _ => text.truncate(random.index(text.len() + 1)),
    }
}

/// A random position, including both ends.
fn position(text: &[u8], random: &mut Random) -> usize {
    random.index(text.len() + 1)
}

/// A random span of at most `longest` bytes.
fn span(len: usize, longest: usize, random: &mut Random) -> std::ops::Range<usize> {
    let start = random.index(len + 1);
    start..(start + random.index(longest + 1)).min(len)
}

fn insert(text: &mut Vec<u8>, what: &[u8], random: &mut Random) {
    let at = position(text, random);
    text.splice(at..at, what.iter().copied());
}

fn flip_bit(text: &mut [u8], random: &mut Random) {
    let at = random.index(text.len());
    if let Some(byte) = text.get_mut(at) {
        *byte ^= 1 << random.index(8);
    }
}

/// Replaces the rest of a line, from a random position, with a word.
fn replace_line_end(text: &mut Vec<u8>, word: &[u8], random: &mut Random) {
    let start = position(text, random);
    let end = text[start..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |more| start + more);
    text.splice(start..end, word.iter().copied());
}

/// Joins the beginning of this input and the end of another.
fn splice(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    text.truncate(position(text, random));
    text.extend_from_slice(&other[position(other, random)..]);
}

/// Replaces one of the numbers with another.
fn replace_number(text: &mut Vec<u8>, random: &mut Random) {
    let starts: Vec<usize> = (0..text.len())
        .filter(|&at| text[at].is_ascii_digit() && (at == 0 || !text[at - 1].is_ascii_digit()))
        .collect();
    if starts.is_empty() {
        return;
    }
    let start = *random.pick(&starts);
    let digits = text[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.splice(start..start + digits, random.pick(NUMBERS).bytes());
}

/// Inserts many opening brackets, or other beginnings of nested values.
fn nest(text: &mut Vec<u8>, random: &mut Random) {
    let opening = random.pick(&["[", "{a: ", "{\"a\":", "- ", "? ", "[[{", "a:\n "]);
    let depth = [3, 31, 32, 33, 100, 5_000][random.index(6)];
    insert(text, opening.repeat(depth).as_bytes(), random);
}

/// Inserts a long run of the same text.
fn lengthen(text: &mut Vec<u8>, random: &mut Random) {
    let unit = random.pick(&["x", "é", " ", "/a", "9", "\\", "\"", "%41", ","]);
    let times = [10, 128, 129, 1_024, 1_025, 20_000][random.index(6)];
    insert(text, unit.repeat(times).as_bytes(), random);
}

fn move_line(text: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.is_empty() {
        return;
    }
    let line = lines[random.index(lines.len())];
    if random.once_in(2) {
        let from = random.index(lines.len());
        lines.remove(from);
    }
    lines.insert(random.index(lines.len() + 1), line);
    *text = lines.concat();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_tried_on_every_size_without_harm() {
        let pool = [Vec::new(), b"1".to_vec(), b"a: 12\nb: [3]\n".to_vec(), vec![b'x'; INPUT_BYTES_MAX]];
        let mut random = Random::new(1);
        let made: Vec<Vec<u8>> = (0..5_000).map(|_| mutated(&pool, &["word"], &mut random)).collect();
        assert!(made.iter().all(|text| text.len() <= INPUT_BYTES_MAX));
        assert!(made.iter().filter(|text| !pool.contains(text)).count() > 4_000);
        let mut again = Random::new(1);
        assert_eq!(made[0], mutated(&pool, &["word"], &mut again), "the same seed, the same run");
    }
}
