//! Random documents in random styles.

use crate::edit::tests::value;

/// Random choices. After the last one, the first of the options is chosen.
pub(super) struct Tape<'t>(pub(super) &'t [u8]);

impl Tape<'_> {
    pub(super) fn pick(&mut self, options: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % options
    }

    fn chance(&mut self, of: usize) -> bool {
        self.pick(of) == of - 1
    }

    pub(super) fn of<'v>(&mut self, options: &[&'v str]) -> &'v str {
        options[self.pick(options.len())]
    }
}

/// Which entry, and which of its members, a line belongs to.
pub(super) type Owner = Option<(usize, Option<String>)>;

/// A document under construction.
struct Page<'t> {
    tape: Tape<'t>,
    lines: Vec<(String, Owner)>,
    comments: usize,
    has_comments: bool,
}

const KEYS: &[&str] = &["name", "rate", "key", "match", "é", "header:x", "'a b'", "\"q\""];
const SCALARS: &[&str] =
    &["1", "x", "'it''s'", "\"a # \\\"b\"", "~", "true", "/api/**", "10s", "a: b", "0x1F", "-5.50", "ü ö"];
impl Page<'_> {
    fn line(&mut self, text: String, owner: &Owner) {
        let end = if self.has_comments && self.tape.chance(6) { self.comment() } else { String::new() };
        let blanks = if self.tape.chance(8) { "  " } else { "" };
        let gap = if end.is_empty() { blanks } else { " " };
        self.lines.push((format!("{text}{gap}{end}"), owner.clone()));
    }

    fn comment(&mut self) -> String {
        self.comments += 1;
        format!("# c{}", self.comments)
    }

    /// Blank lines that belong to nobody, then comments that belong to what follows.
    fn above(&mut self, indent: usize, owner: &Owner) {
        (0..self.tape.pick(6).saturating_sub(3)).for_each(|_| self.lines.push((String::new(), None)));
        while self.has_comments && self.tape.chance(5) {
            let comment = self.comment();
            self.lines.push((format!("{}{comment}", " ".repeat(indent)), owner.clone()));
        }
    }

    fn keys(&mut self) -> Vec<&'static str> {
        let count = 1 + self.tape.pick(4);
        let mut keys: Vec<&str> = Vec::new();
        for _ in 0..count {
            let key = self.tape.of(KEYS);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn scalar(&mut self, in_flow: bool) -> &'static str {
        match self.tape.of(SCALARS) {
            // In a block this would be a map.
            "a: b" => "'a: b'",
            scalar if in_flow && scalar == "~" => "null",
            scalar => scalar,
        }
    }

    fn flow(&mut self, depth: usize) -> String {
        let blank = self.tape.of(&["", " "]);
        match self.tape.pick(if depth == 0 { 1 } else { 3 }) {
            0 => self.scalar(true).to_owned(),
            1 => {
                let items: Vec<String> = (0..self.tape.pick(3)).map(|_| self.flow(depth - 1)).collect();
                format!("[{blank}{}{blank}]", items.join(self.tape.of(&[", ", ","])))
            }
            _ => self.flow_map(depth),
        }
    }

    fn flow_map(&mut self, depth: usize) -> String {
        let blank = self.tape.of(&["", " "]);
        let members: Vec<String> =
            self.keys().into_iter().map(|key| format!("{key}: {}", self.flow(depth - 1))).collect();
        format!("{{{blank}{}{blank}}}", members.join(self.tape.of(&[", ", " ,"])))
    }

    /// The members of a map, the first of which may follow `lead`.
    fn block_map(&mut self, lead: &str, indent: usize, depth: usize, entry: Option<usize>, owner: &Owner) {
        for (index, key) in self.keys().into_iter().enumerate() {
            let owner = match entry {
                Some(entry) => Some((entry, Some(value(key).scalar().unwrap_or_default().to_owned()))),
                None => owner.clone(),
            };
            if index > 0 {
                self.above(indent, &owner);
            }
            let lead = if index == 0 { lead.to_owned() } else { " ".repeat(indent) };
            let inner = indent + 1 + self.tape.pick(4);
            match self.tape.pick(if depth == 0 { 2 } else { 6 }) {
                0 => {
                    let scalar = self.scalar(false);
                    self.line(format!("{lead}{key}: {scalar}"), &owner);
                }
                1 | 2 => {
                    let flow = self.flow(2);
                    self.line(format!("{lead}{key}: {flow}"), &owner);
                }
                3 => {
                    self.lines
                        .push((format!("{lead}{key}: {}", self.tape.of(&["|", ">-", "|2-"])), owner.clone()));
                    let shift = " ".repeat(indent + 2);
                    self.lines.push((format!("{shift}# text"), owner.clone()));
                    self.lines.push((format!("{shift}more"), owner.clone()));
                }
                4 => {
                    self.line(format!("{lead}{key}:"), &owner);
                    let shift = self.tape.pick(3);
                    self.block_list(indent + shift, &owner);
                }
                _ => {
                    self.line(format!("{lead}{key}:"), &owner);
                    self.block_map(&" ".repeat(inner), inner, depth - 1, None, &owner);
                }
            }
        }
    }

    fn block_list(&mut self, indent: usize, owner: &Owner) {
        for _ in 0..=self.tape.pick(3) {
            self.above(indent, owner);
            let scalar = self.scalar(false);
            self.line(format!("{}- {scalar}", " ".repeat(indent)), owner);
        }
    }

    /// The list that is edited, in one of its styles; returns whether it is a block list with entries.
    fn limits(&mut self) -> bool {
        let count = self.tape.pick(4);
        match self.tape.pick(6) {
            0 => {
                let items: Vec<String> = (0..count).map(|_| self.flow_map(3)).collect();
                self.line(format!("limits: [{}]", items.join(", ")), &None);
                return false;
            }
            1 if count > 0 => {
                self.line("limits: [".to_owned(), &None);
                for entry in 0..count {
                    let owner = Some((entry, None));
                    self.above(4, &owner);
                    let comma = if entry + 1 < count || self.tape.chance(3) { "," } else { "" };
                    let item = self.flow_map(2);
                    self.line(format!("    {item}{comma}"), &owner);
                }
                self.line("  ]".to_owned(), &None);
                return false;
            }
            _ if count == 0 => {
                let empty = self.tape.of(&["limits:", "limits: []", "limits: null", "other: 1"]);
                self.line(empty.to_owned(), &None);
                return false;
            }
            _ => {}
        }
        self.line("limits:".to_owned(), &None);
        let indent = self.tape.pick(4);
        for entry in 0..count {
            let owner = Some((entry, None));
            self.above(indent, &owner);
            let offset = 1 + self.tape.pick(3);
            let lead = format!("{}-{}", " ".repeat(indent), " ".repeat(offset));
            match self.tape.pick(5) {
                0 => {
                    let item = self.flow_map(3);
                    self.line(format!("{lead}{item}"), &owner);
                }
                1 => {
                    self.line(format!("{}-", " ".repeat(indent)), &owner);
                    let inner = indent + 1 + offset;
                    self.block_map(&" ".repeat(inner), inner, 2, Some(entry), &owner);
                }
                _ => self.block_map(&lead, indent + 1 + offset, 2, Some(entry), &owner),
            }
        }
        true
    }
}

/// A document, the owner of each line, and whether its list is a block list with entries.
pub(super) struct Sample {
    pub(super) text: String,
    pub(super) lines: Vec<(String, Owner)>,
    pub(super) is_block: bool,
}

/// A document in a random style.
pub(super) fn sample(tape: &[u8]) -> Sample {
    let mut page = Page { tape: Tape(tape), lines: Vec::new(), comments: 0, has_comments: true };
    page.has_comments = page.tape.pick(4) > 0;
    let (has_breaks, has_end, has_start) = (page.tape.chance(3), page.tape.pick(3) > 0, page.tape.chance(4));
    if has_start {
        page.lines.push(("---".to_owned(), None));
    }
    page.above(0, &None);
    page.line("version: 1".to_owned(), &None);
    page.above(0, &None);
    let is_block = page.limits();
    if page.tape.chance(2) {
        page.above(0, &None);
        page.line("routes: [a, b]".to_owned(), &None);
    }
    let newline = if has_breaks { "\r\n" } else { "\n" };
    let lines: Vec<&str> = page.lines.iter().map(|(line, _)| line.as_str()).collect();
    let text = lines.join(newline) + if has_end { newline } else { "" };
    Sample { text, lines: page.lines, is_block }
}
