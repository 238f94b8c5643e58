//! `INFO`: the state of the server, in the format of Redis.

use tidegate::engine::Reason;

use crate::node::Node;
use crate::node::lifecycle::Phase;
use crate::resp::protocol::decode::CommandArgs;
use crate::resp::protocol::reply::ReplyWriter;
use crate::resp::session::REDIS_VERSION;

pub(crate) fn answer(node: &Node, args: CommandArgs<'_>, reply: &mut ReplyWriter<'_>) {
    let wants_all = args.iter().skip(1).all(|section| {
        [&b"all"[..], b"default", b"everything"].iter().any(|all| section.eq_ignore_ascii_case(all))
    });
    let mut text = String::new();
    for (name, lines) in sections(node) {
        if wants_all || args.iter().skip(1).any(|section| section.eq_ignore_ascii_case(name.as_bytes())) {
            text.push_str(&format!("{}# {name}\r\n{lines}", if text.is_empty() { "" } else { "\r\n" }));
        }
    }
    reply.text(&text);
}

fn sections(node: &Node) -> [(&'static str, String); 4] {
    let stats = node.memory();
    let decisions: u64 = Reason::ALL.iter().map(|reason| node.limiter().decided(*reason)).sum();
    // Clients wait while a server reports that it is loading.
    let loading = u8::from(node.lifecycle().phase() == Phase::Starting);
    [
        (
            "Server",
            format!(
                "redis_version:{REDIS_VERSION}\r\ntidegate_version:{}\r\nredis_mode:standalone\r\n",
                env!("CARGO_PKG_VERSION")
            ),
        ),
        ("Persistence", format!("loading:{loading}\r\n")),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        (
            "Tidegate",
            format!(
                "policy_version:{}\r\npolicy_decisions:{decisions}\r\nkeys:{}\r\nkeys_overflowed:{}\r\n",
                node.limiter().version(),
                stats.keys,
                stats.overflows
            ),
        ),
    ]
}
