//! What clients send when they connect, and the password.

use super::wire::{Answer, Server, bulk, ok, shared};

#[test]
fn what_clients_send_when_they_connect_is_answered() {
    let mut client = shared();
    assert_eq!(client.say("PING"), Answer::Word("PONG".into()));
    assert_eq!(client.say("ping hi"), bulk("hi"));
    assert_eq!(client.say("ECHO hi"), bulk("hi"));
    assert_eq!(client.say("SELECT 0"), ok());
    assert!(client.say("SELECT 1").error().starts_with("ERR DB index is out of range"));
    assert!(client.say("SELECT x").error().starts_with("ERR invalid DB index"));
    assert_eq!(client.say("CLIENT SETINFO LIB-NAME redis-py"), ok());
    assert_eq!(client.say("CLIENT SETINFO lib-ver 8.0.0"), ok());
    assert_eq!(client.say("CLIENT GETNAME"), Answer::Null);
    assert_eq!(client.say("CLIENT SETNAME me"), ok());
    assert_eq!(client.say("CLIENT GETNAME"), bulk("me"));
    assert!(
        client.ask(&["CLIENT", "SETNAME", "a b"]).error().starts_with("ERR names must not contain spaces")
    );
    assert_eq!(client.say("CLIENT NO-EVICT ON"), ok());
    assert_eq!(client.say("CLIENT NO-TOUCH ON"), ok());
    assert_eq!(client.say("CLIENT TRACKING OFF"), ok());
    assert!(client.say("CLIENT TRACKING ON").error().starts_with("ERR unknown subcommand"));
    assert!(client.say("CLIENT KILL x").error().starts_with("ERR unknown subcommand"));
    let Answer::Integer(id) = client.say("CLIENT ID") else { panic!("no number") };
    assert_eq!(client.say("CLIENT INFO"), bulk(&format!("id={id} name=me db=0 resp=2\n")));
    assert_eq!(client.say("CONFIG GET save"), Answer::Array(vec![]));
    assert!(client.say("CONFIG SET save x").error().starts_with("ERR unknown subcommand"));
}

#[test]
fn hello_chooses_the_version() {
    let mut client = shared();
    let Answer::Array(two) = client.say("HELLO") else { panic!("no array") };
    assert_eq!((two.len(), &two[..2]), (14, &[bulk("server"), bulk("tidegate")][..]));
    let Answer::Map(three) = client.say("HELLO 3 SETNAME me") else { panic!("no map") };
    assert!(three.contains(&(bulk("proto"), Answer::Integer(3))), "{three:?}");
    assert_eq!(client.say("CLIENT GETNAME"), bulk("me"));
    assert!(matches!(client.say("INFO"), Answer::Text(_)));
    assert_eq!(client.say("CONFIG GET save"), Answer::Map(vec![]));
    assert!(client.say("HELLO 4").error().starts_with("NOPROTO "));
    assert!(client.say("HELLO x").error().starts_with("ERR "));
    assert!(client.say("HELLO 2 SETNAME").error().starts_with("ERR Syntax error in HELLO option 'SETNAME'"));
    assert!(matches!(client.say("INFO"), Answer::Text(_)), "a wrong HELLO changes nothing");
    assert_eq!(client.say("RESET"), Answer::Word("RESET".into()));
    assert_eq!(client.say("CLIENT GETNAME"), Answer::Null);
    assert!(matches!(client.say("INFO"), Answer::Bulk(_)));
}

#[test]
fn commands_are_described() {
    let mut client = shared();
    let Answer::Integer(count) = client.say("COMMAND COUNT") else { panic!("no number") };
    for line in ["COMMAND", "COMMAND INFO", "COMMAND LIST"] {
        let Answer::Array(all) = client.say(line) else { panic!("no array") };
        assert_eq!(all.len() as i64, count, "{line}");
    }
    let Answer::Array(two) = client.say("COMMAND INFO cl.throttle nothing") else { panic!("no array") };
    let Answer::Array(facts) = &two[0] else { panic!("no array") };
    assert_eq!(facts[..2], [bulk("cl.throttle"), Answer::Integer(-5)]);
    assert_eq!(facts[3..6], [Answer::Integer(1), Answer::Integer(1), Answer::Integer(1)]);
    assert_eq!(two[1], Answer::Null);
    client.say("HELLO 3");
    let Answer::Map(docs) = client.say("COMMAND DOCS ping") else { panic!("no map") };
    assert_eq!(docs.len(), 1);
    let Answer::Map(docs) = client.say("COMMAND DOCS") else { panic!("no map") };
    assert_eq!(docs.len() as i64, count);
}

#[test]
fn info_has_what_clients_look_for() {
    let mut client = shared();
    client.say("TG.CHECK user info");
    let Answer::Bulk(text) = client.say("INFO") else { panic!("no text") };
    let text = String::from_utf8(text).unwrap();
    for line in
        ["# Server", "redis_version:", "tidegate_version:", "loading:0", "role:master", "policy_decisions:"]
    {
        assert!(text.lines().any(|seen| seen.starts_with(line)), "{line}: {text}");
    }
    let Answer::Bulk(server) = client.say("INFO server") else { panic!("no text") };
    let server = String::from_utf8(server).unwrap();
    assert!(server.starts_with("# Server\r\n") && !server.contains("role:"), "{server}");
    assert_eq!(client.say("INFO nothing"), bulk(""));
}

#[test]
fn an_unknown_command_is_named_and_the_connection_stays() {
    let mut client = shared();
    let said = client.ask(&["g\x1bt", "a\r\nb", &"x".repeat(100)]);
    let expected = format!(
        "ERR unknown command 'g\\x1bt', with args beginning with: 'a\\r\\nb' '{}...' ",
        "x".repeat(64)
    );
    assert_eq!(said.error(), expected);
    assert_eq!(client.ask(&[""]).error(), "ERR unknown command '', with args beginning with: ");
    assert!(client.say("ECHO").error().starts_with("ERR wrong number of arguments; usage: ECHO message"));
    assert_eq!(client.say("AUTH x").error(), "ERR AUTH failed: the server has no password set");
    assert_eq!(client.say("QUIT"), ok());
    assert!(client.is_closed());
}

fn guarded() -> Server {
    Server::start(&[], &[("TIDEGATE_RESP_PASSWORD", "open sesame")])
}

#[test]
fn nothing_is_answered_before_the_password() {
    let server = guarded();
    let mut client = server.connect();
    for line in ["PING", "CL.THROTTLE k 1 1 1", "TG.CHECK user a", "INFO", "NOTHING", "CLIENT ID", "HELLO 3"]
    {
        assert!(client.say(line).error().starts_with("NOAUTH "), "{line}");
    }
    assert!(client.say("AUTH wrong").error().starts_with("WRONGPASS "));
    assert!(client.ask(&["AUTH", "root", "open sesame"]).error().starts_with("WRONGPASS "));
    assert!(client.say("PING").error().starts_with("NOAUTH "));
    assert_eq!(client.ask(&["AUTH", "open sesame"]), ok());
    assert_eq!(client.say("PING"), Answer::Word("PONG".into()));
    client.say("RESET");
    assert!(client.say("PING").error().starts_with("NOAUTH "), "a reset forgets the password");
    assert!(matches!(client.ask(&["HELLO", "3", "AUTH", "default", "open sesame"]), Answer::Map(_)));
    assert_eq!(client.say("PING"), Answer::Word("PONG".into()));
}

#[test]
fn wrong_passwords_end_the_connection() {
    let server = guarded();
    let mut client = server.connect();
    for _ in 1..tidegate_server::bounds::RESP_AUTH_ATTEMPTS_MAX {
        assert!(client.say("AUTH wrong").error().starts_with("WRONGPASS invalid"));
    }
    assert!(client.say("HELLO 2 AUTH default wrong").error().starts_with("WRONGPASS too many"));
    assert!(client.is_closed());
    assert_eq!(server.connect().ask(&["AUTH", "open sesame"]), ok(), "others can still try");
}
