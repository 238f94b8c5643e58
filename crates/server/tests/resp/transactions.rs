//! `MULTI`, `EXEC` and `DISCARD`, which client libraries wrap pipelines in.

use tidegate_server::bounds::{RESP_QUEUED_BYTES_MAX, RESP_QUEUED_MAX};

use super::wire::{Answer, Client, Server, bulk, encoded, ok, shared};

fn queued() -> Answer {
    Answer::Word("QUEUED".into())
}

/// What is left in the bucket of a user, without taking from it.
fn remaining(client: &mut Client, user: &str) -> Answer {
    let Answer::Array(items) = client.say(&format!("TG.CHECK user {user} cost 0")) else {
        panic!("no array")
    };
    items[2].clone()
}

fn items(answer: Answer) -> Vec<Answer> {
    if let Answer::Array(items) = answer { items } else { panic!("no array: {answer:?}") }
}

#[test]
fn commands_run_at_exec_in_order_and_none_before() {
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut client, mut other) = (shared(), shared());
        client.say(hello);
        let user = hello.replace("HELLO ", "multi-");
        assert_eq!(client.say("MULTI"), ok());
        for _ in 0..4 {
            assert_eq!(client.say(&format!("TG.CHECK user {user}")), queued());
        }
        assert_eq!(client.say("ECHO hi"), queued());
        assert_eq!(remaining(&mut other, &user), Answer::Integer(3), "nothing is charged yet");
        let answers = items(client.say("EXEC"));
        let allowed: Vec<Answer> =
            answers[..4].iter().map(|answer| items(answer.clone())[0].clone()).collect();
        assert_eq!(allowed, [1, 1, 1, 0].map(Answer::Integer), "{hello}");
        assert_eq!(items(answers[3].clone())[5], bulk("per-user"));
        assert_eq!(answers[4..], [bulk("hi")]);
        assert_eq!(remaining(&mut other, &user), Answer::Integer(0));
        assert_eq!(client.say("PING"), Answer::Word("PONG".into()), "the transaction is over");
    }
}

#[test]
fn nothing_is_charged_unless_exec_comes() {
    let mut client = shared();
    client.say("MULTI");
    client.say("TG.CHECK user never");
    assert_eq!(client.say("DISCARD"), ok());
    assert_eq!(client.say("DISCARD").error(), "ERR DISCARD without MULTI");
    for last in ["RESET", "QUIT"] {
        let mut leaving = shared();
        leaving.say("MULTI");
        leaving.say("TG.CHECK user never");
        assert!(matches!(leaving.say(last), Answer::Word(_)), "{last} is answered at once");
        if last == "RESET" {
            assert_eq!(leaving.say("EXEC").error(), "ERR EXEC without MULTI");
        }
    }
    assert_eq!(remaining(&mut client, "never"), Answer::Integer(3));
}

#[test]
fn a_command_that_is_refused_takes_the_others_with_it() {
    let mut client = shared();
    let too_long = "x".repeat(5_000);
    for wrong in [&["GET", "k"][..], &["ECHO"], &["ECHO", &too_long], &["AUTH", "x"], &["HELLO", "3"]] {
        assert_eq!(client.say("MULTI"), ok());
        assert_eq!(client.say("TG.CHECK user aborted"), queued());
        assert!(client.ask(wrong).error().starts_with("ERR "), "{wrong:?}");
        assert_eq!(client.say("TG.CHECK user aborted"), queued(), "as in Redis");
        let said = client.say("EXEC");
        assert_eq!(said.error(), "EXECABORT Transaction discarded because of previous errors.", "{wrong:?}");
    }
    assert_eq!(remaining(&mut client, "aborted"), Answer::Integer(3));
    assert_eq!(client.say("EXEC").error(), "ERR EXEC without MULTI");
}

#[test]
fn an_error_while_running_is_that_commands_alone() {
    let mut client = shared();
    client.say("MULTI");
    assert_eq!(client.say("MULTI").error(), "ERR MULTI calls can not be nested");
    assert_eq!(client.say("CL.THROTTLE k x 1 1"), queued());
    assert_eq!(client.say("PING"), queued());
    let answers = items(client.say("EXEC"));
    assert!(answers[0].error().starts_with("ERR max_burst is not an integer"), "{answers:?}");
    assert_eq!(answers[1..], [Answer::Word("PONG".into())]);
    client.say("MULTI");
    assert_eq!(client.say("EXEC"), Answer::Array(vec![]));
}

#[test]
fn a_long_transaction_is_answered_in_pieces() {
    let server = Server::start(&[], &[]);
    let mut client = server.connect();
    let mut sent = encoded(&["MULTI"]);
    // Each reply is many times as long as its command.
    (0..2_000).for_each(|_| sent.extend(encoded(&["COMMAND"])));
    sent.extend(encoded(&["EXEC"]));
    sent.extend(encoded(&["PING"]));
    client.send(&sent);
    assert_eq!(client.answer(), ok());
    (0..2_000).for_each(|_| assert_eq!(client.answer(), queued()));
    let before = server.resident_kib();
    let answers = items(client.answer());
    assert!(answers.len() == 2_000 && answers.iter().all(|answer| *answer == answers[0]));
    assert!(server.resident_kib() < before + 8 * 1_024, "the replies are not collected");
    assert_eq!(client.answer(), Answer::Word("PONG".into()));
}

#[test]
fn what_a_transaction_holds_is_bounded() {
    let mut client = shared();
    for (command, count) in [
        (encoded(&["PING"]), RESP_QUEUED_MAX),
        (encoded(&["ECHO", &"x".repeat(4_000)]), RESP_QUEUED_BYTES_MAX / 4_100),
    ] {
        let mut sent = encoded(&["MULTI"]);
        (0..count + 20).for_each(|_| sent.extend_from_slice(&command));
        sent.extend(encoded(&["EXEC"]));
        let mut writer = client.stream.try_clone().expect("a socket can be shared");
        let writing = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &sent));
        assert_eq!(client.answer(), ok());
        let answers: Vec<Answer> = (0..count + 20).map(|_| client.answer()).collect();
        let refused = answers.iter().position(|answer| *answer != queued()).expect("there is a bound");
        assert!(refused >= count, "{refused} of {count}");
        assert!(answers[refused].error().starts_with("ERR too much in one transaction"), "{answers:?}");
        assert!(client.answer().error().starts_with("EXECABORT"));
        writing.join().expect("no panic").expect("it is read");
    }
}
