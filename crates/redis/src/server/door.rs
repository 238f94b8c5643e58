//! How a connection is made: found, opened, made secret, introduced, and known to be answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::address::{Login, Place};
use super::reply::words;
use super::tls::Trust;

/// How many calls wait for the connection's task; those beyond wait for room, within their deadlines.
const CALLS_WAITING_MAX: usize = 4_096;

/// What every connection has in common.
#[derive(Clone, Debug)]
pub(super) struct Manners {
    pub(super) login: Option<Login>,
    pub(super) db: i64,
    pub(super) trust: Option<Trust>,
    /// How long making a connection may take.
    pub(super) within: Duration,
}

/// How to introduce oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Introduction {
    /// Not at all.
    None,
    /// By name and password. A Sentinel has no databases to choose from.
    Login,
    /// The same, and with the database that is meant.
    LoginAndDb,
}

/// Where to connect to.
#[derive(Debug)]
pub(super) enum Goal {
    /// There.
    Place(Place),
    /// Where Sentinels say that the master is.
    Master { sentinels: Vec<Place>, master: String, turn: AtomicUsize },
}

/// Makes connections to one goal.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) manners: Arc<Manners>,
    pub(super) goal: Goal,
}

/// What drives a connection: whoever runs it keeps the connection alive, and it ends with it.
pub(super) type Driver = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl Door {
    /// Makes a connection, to a server that answers.
    ///
    /// # Errors
    /// When there is none, in words.
    pub(super) async fn open(&self) -> Result<(MultiplexedConnection, Driver), String> {
        match &self.goal {
            Goal::Place(place) => self.manners.open(place, Introduction::LoginAndDb).await,
            Goal::Master { sentinels, master, turn } => {
                let place = self.find(sentinels, master, turn).await?;
                self.manners.open(&place, Introduction::LoginAndDb).await
            }
        }
    }

    /// Asks the Sentinels in turn, beginning with another one each time.
    async fn find(&self, sentinels: &[Place], master: &str, turn: &AtomicUsize) -> Result<Place, String> {
        let first = turn.fetch_add(1, Ordering::Relaxed);
        let mut troubles = Vec::new();
        for offset in 0..sentinels.len() {
            let sentinel = &sentinels[first.wrapping_add(offset) % sentinels.len()];
            match self.ask(sentinel, master).await {
                Ok(place) => return Ok(place),
                Err(why) => troubles.push(format!("Sentinel {sentinel}: {why}")),
            }
        }
        Err(troubles.join("; "))
    }

    async fn ask(&self, sentinel: &Place, master: &str) -> Result<Place, String> {
        // Most Sentinels want no password; one that does usually has the servers'.
        let (connection, driver) = match self.manners.open(sentinel, Introduction::None).await {
            Err(why) if why.starts_with("NOAUTH") => self.manners.open(sentinel, Introduction::Login).await?,
            other => other?,
        };
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
        match exchange(connection, driver, &question, self.manners.within).await? {
            Value::Array(parts) => match parts.as_slice() {
                [Value::BulkString(host), Value::BulkString(port)] => read_place(host, port),
                _ => Err("an answer that makes no sense".into()),
            },
            Value::Nil => Err(format!("it knows no master named {master:?}")),
            Value::ServerError(error) => Err(words(&error)),
            _ => Err("an answer that makes no sense".into()),
        }
    }
}

fn read_place(host: &[u8], port: &[u8]) -> Result<Place, String> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "a master that is no place".to_owned());
    let port = text(port)?.parse().map_err(|_| "a master without a port".to_owned())?;
    Ok(Place { host: text(host)?.to_owned(), port })
}

/// One question over a connection that nobody else drives.
async fn exchange(
    mut connection: MultiplexedConnection,
    driver: Driver,
    question: &redis::Cmd,
    within: Duration,
) -> Result<Value, String> {
    let answer = async {
        tokio::select! {
            answer = connection.send_packed_command(question) => answer.map_err(|error| plain(&error)),
            () = driver => Err("it hung up".to_owned()),
        }
    };
    tokio::time::timeout(within, answer).await.map_err(|_| no_answer(within))?
}

impl Manners {
    /// Makes a connection to one place, within the time there is for it.
    pub(super) async fn open(
        &self,
        place: &Place,
        introduce: Introduction,
    ) -> Result<(MultiplexedConnection, Driver), String> {
        let opening = async {
            let stream = TcpStream::connect((place.host.as_str(), place.port))
                .await
                .map_err(|error| format!("{place}: {error}"))?;
            stream.set_nodelay(true).map_err(|error| format!("{place}: {error}"))?;
            match &self.trust {
                None => self.greet(stream, introduce).await,
                Some(trust) => self.greet(trust.secure(&place.host, stream).await?, introduce).await,
            }
        };
        tokio::time::timeout(self.within, opening)
            .await
            .map_err(|_| format!("{place}: {}", no_answer(self.within)))?
    }

    async fn greet<S>(
        &self,
        stream: S,
        introduce: Introduction,
    ) -> Result<(MultiplexedConnection, Driver), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if introduce == Introduction::LoginAndDb {
            info = info.set_db(self.db);
        }
        if let Some(Login { user, password }) =
            self.login.as_ref().filter(|_| introduce != Introduction::None)
        {
            info = info.set_password(password);
            info = user.iter().fold(info, |info, user| info.set_username(user));
        }
        let config = AsyncConnectionConfig::new()
            // Deadlines are for who asks to keep.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(CALLS_WAITING_MAX);
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| plain(&error))?;
        let mut driver: Driver = Box::pin(driver);
        let mut asked = connection.clone();
        let ping = redis::cmd("PING");
        let answer = tokio::select! {
            answer = asked.send_packed_command(&ping) => answer.map_err(|error| plain(&error))?,
            () = &mut driver => return Err("it hung up".into()),
        };
        match answer {
            // It will hang up: nobody is let in without a password, from elsewhere, or for want of room.
            Value::ServerError(error) if matches!(error.code(), "NOAUTH" | "DENIED" | "ERR") => {
                Err(words(&error))
            }
            // Whatever else it says, it answers: that it is loading, or that we may not ask.
            _ => Ok((connection, driver)),
        }
    }
}

/// An error of the client library, in words.
pub(super) fn plain(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            "WRONGPASS: it does not accept the user and password of the address".into()
        }
        _ => error.to_string(),
    }
}

fn no_answer(within: Duration) -> String {
    format!("no answer within {} ms", within.as_millis())
}
