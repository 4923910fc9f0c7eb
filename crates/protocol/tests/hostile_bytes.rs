//! Whatever a peer sends, in whatever pieces, the outcome is an event or a failure: never a panic, never a loop.

use bytes::BytesMut;
use pgassay_protocol::{
    Answer, AnswerState, BindingMode, Channel, Failure, InputBuffer, Parameters, SslMode, SslNegotiation,
    Startup, TransactionStatus,
};
use rand_xoshiro::Xoroshiro128StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const AUTHENTICATION_OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";
const WELCOME: &[u8] =
    b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0018.4\0K\0\0\0\x0c\0\0\0\x07\0\0\0\x09Z\0\0\0\x05I";
const ANSWER: &[u8] = b"T\0\0\0\x06\0\0D\0\0\0\x0b\0\x01\0\0\0\x01xD\0\0\0\x0b\0\x01\0\0\0\x01y\
    N\0\0\0\x0aSNOTE\0C\0\0\0\x0dSELECT 2\0Z\0\0\0\x05T";
const ERROR: &[u8] = b"E\0\0\0\x2eSFEHLER\0VERROR\0C40P01\0Mtoo bad\0Htry\0Dwhy\0\0Z\0\0\0\x05E";

fn parameters(password: Option<&str>) -> Parameters {
    Parameters {
        host: "/tmp".to_owned(),
        hostaddr: None,
        port: 5432,
        user: "me".to_owned(),
        password: password.map(str::to_owned),
        dbname: "db".to_owned(),
        options: String::new(),
        application_name: "test".to_owned(),
        client_encoding: None,
        sslmode: SslMode::Disable,
        sslrootcert: None,
        channel_binding: BindingMode::Prefer,
        sslnegotiation: SslNegotiation::Postgres,
        connect_timeout: 0,
        keepalives: 1,
        keepalives_idle: 0,
        keepalives_interval: 0,
        keepalives_count: 0,
        tcp_user_timeout: 0,
    }
}

fn feed(input: &mut InputBuffer, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let space = input.space();
        let count = space.len().min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        input.received(count);
        bytes = &bytes[count..];
    }
}

fn start(bytes: &[u8], password: Option<&str>) -> (Result<Option<i32>, Failure>, Vec<u8>) {
    let mut output = BytesMut::new();
    let mut startup = Startup::begin(&parameters(password), Channel::Plain, &mut output).unwrap();
    output.clear();
    let mut input = InputBuffer::with_capacity(32);
    let mut outcome = Ok(None);
    for piece in bytes.chunks(7) {
        feed(&mut input, piece);
        outcome = startup
            .receive(&mut input, &mut output)
            .map(|session| session.map(|s| s.process_id));
        if !matches!(outcome, Ok(None)) {
            break;
        }
    }
    (outcome, output.to_vec())
}

fn read(pieces: &[&[u8]]) -> (Result<AnswerState, Failure>, Answer) {
    let mut input = InputBuffer::with_capacity(16);
    let mut answer = Answer::default();
    let mut outcome = Ok(AnswerState::Incomplete);
    for piece in pieces {
        feed(&mut input, piece);
        outcome = answer.read(&mut input);
        if outcome != Ok(AnswerState::Incomplete) {
            break;
        }
    }
    (outcome, answer)
}

#[test]
fn a_server_that_trusts_is_ready() {
    assert_eq!(start(WELCOME, None), (Ok(Some(7)), Vec::new()));
}

#[test]
fn a_cleartext_password_is_sent_when_asked_for() {
    let (outcome, sent) = start(b"R\0\0\0\x08\0\0\0\x03", Some("secret"));
    assert_eq!(outcome, Ok(None));
    assert_eq!(sent, b"p\0\0\0\x0bsecret\0");
}

#[test]
fn an_md5_password_is_hashed_with_the_salt() {
    let (outcome, sent) = start(b"R\0\0\0\x0c\0\0\0\x05abcd", Some("secret"));
    assert_eq!(outcome, Ok(None));
    // 'md5' || md5(md5('secretme') || 'abcd'), by md5sum.
    assert_eq!(sent, b"p\0\0\0\x28md5144b723776673e7e3ec447c5b47dd7a5\0");
}

#[test]
fn no_password_is_sent_where_it_must_be_bound_to_the_channel() {
    for request in [&b"R\0\0\0\x08\0\0\0\x03"[..], b"R\0\0\0\x0c\0\0\0\x05abcd"] {
        let parameters = Parameters {
            channel_binding: BindingMode::Require,
            ..parameters(Some("secret"))
        };
        let mut output = BytesMut::new();
        let channel = Channel::Tls(Some(vec![7; 32]));
        let mut startup = Startup::begin(&parameters, channel, &mut output).unwrap();
        output.clear();
        let mut input = InputBuffer::with_capacity(32);
        feed(&mut input, request);
        let failure = startup.receive(&mut input, &mut output).unwrap_err();
        assert!(failure.message.contains("channel_binding=require"), "{failure}");
        assert!(output.is_empty());
    }
}

#[test]
fn a_missing_password_is_a_clear_failure() {
    for request in [
        &b"R\0\0\0\x08\0\0\0\x03"[..],
        b"R\0\0\0\x0c\0\0\0\x05abcd",
        b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
    ] {
        let failure = start(request, None).0.unwrap_err();
        assert!(
            failure.message.contains("asks for a password of role \"me\""),
            "{failure}"
        );
    }
}

#[test]
fn steps_out_of_order_are_failures() {
    let ready_at_once: &[u8] = b"Z\0\0\0\x05I";
    let scram_end_first: &[u8] = b"R\0\0\0\x0c\0\0\0\x0cv=xx";
    let kerberos: &[u8] = b"R\0\0\0\x08\0\0\0\x02";
    let twice = [AUTHENTICATION_OK, AUTHENTICATION_OK].concat();
    // Success without proof that the server knows the password.
    let unproven = [b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0", AUTHENTICATION_OK].concat();
    for bytes in [ready_at_once, scram_end_first, kerberos, &twice, &unproven] {
        assert!(start(bytes, Some("secret")).0.is_err(), "{bytes:?}");
    }
}

#[test]
fn an_answer_cut_anywhere_is_the_same_answer() {
    for cut in 0..=ANSWER.len() {
        let (outcome, answer) = read(&[&ANSWER[..cut], &ANSWER[cut..]]);
        assert_eq!(
            outcome,
            Ok(AnswerState::Ready(TransactionStatus::Open)),
            "cut at {cut}"
        );
        assert_eq!((answer.rows, answer.error), (2, None), "cut at {cut}");
    }
}

#[test]
fn an_error_keeps_its_fields() {
    let (outcome, answer) = read(&[ERROR]);
    assert_eq!(outcome, Ok(AnswerState::Ready(TransactionStatus::Failed)));
    let failure = answer.error.unwrap();
    assert!(failure.is_retryable());
    assert_eq!(failure.message, "too bad");
    assert_eq!(
        (failure.detail.as_deref(), failure.hint.as_deref()),
        (Some("why"), Some("try"))
    );
}

#[test]
fn a_fatal_error_ends_the_session() {
    let (outcome, _) = read(&[b"E\0\0\0\x1cVFATAL\0C57P01\0Mgo away\0\0"]);
    let failure = outcome.unwrap_err();
    assert!(failure.fatal && failure.sqlstate.as_deref() == Some("57P01"));
}

#[test]
fn mutated_conversations_never_panic() {
    let mut random = Xoroshiro128StarStar::seed_from_u64(2026);
    let scram = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0R\0\0\0\x1f\0\0\0\x0br=abc,s=c2FsdA==,i=4096R\0\0\0\x0c\0\0\0\x0cv=xx";
    let sources: [&[u8]; 4] = [WELCOME, ANSWER, ERROR, scram];
    let mut failures = 0;
    for round in 0..200_000 {
        let mut bytes = sources[round % sources.len()].to_vec();
        for _ in 0..=random.next_u64() % 4 {
            let place = usize::try_from(random.next_u64()).unwrap() % bytes.len();
            match random.next_u64() % 3 {
                0 => bytes[place] = random.next_u64().to_le_bytes()[0],
                1 => bytes.truncate(place.max(1)),
                _ => bytes.insert(place, bytes[place / 2]),
            }
        }
        failures += u32::from(start(&bytes, Some("secret")).0.is_err());
        let cut = usize::try_from(random.next_u64()).unwrap() % bytes.len();
        failures += u32::from(read(&[&bytes[..cut], &bytes[cut..]]).0.is_err());
    }
    assert!(
        failures > 50_000,
        "the mutations are too tame: {failures} failures"
    );
}
