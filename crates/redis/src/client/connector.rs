//! How a connection is made: found, opened, made secret, introduced, and known to be answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, ProtocolVersion, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::address::{HostPort, Login};
use super::reply::words;
use super::sentinels::Sentinels;
use super::tls::TrustedRoots;

/// How many calls wait for the connection's task; those beyond wait for room, within their deadlines.
const CALLS_WAITING_MAX: usize = 4_096;

/// What every connection has in common.
#[derive(Clone, Debug)]
pub(super) struct ConnectOptions {
    pub(super) login: Option<Login>,
    pub(super) db: i64,
    pub(super) trust: Option<TrustedRoots>,
    /// How long making a connection may take.
    pub(super) within: Duration,
}

/// How to introduce oneself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// Not at all.
    None,
    /// By name and password. A Sentinel has no databases to choose from.
    Login,
    /// The same, and with the database that is meant.
    LoginAndDb,
}

/// Where to connect to.
#[derive(Debug)]
pub(super) enum ConnectTarget {
    /// There.
    Place(HostPort),
    /// Where Sentinels say that the master is.
    Master(Arc<Sentinels>),
}

impl ConnectTarget {
    /// Resolves when it is not there any more.
    pub(super) async fn elsewhere(&self, than: &HostPort) {
        match self {
            ConnectTarget::Place(_) => std::future::pending().await,
            ConnectTarget::Master(sentinels) => sentinels.elsewhere(than).await,
        }
    }
}

/// Makes connections to one goal.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) manners: Arc<ConnectOptions>,
    pub(super) goal: ConnectTarget,
}

/// A connection, and where it leads.
pub(super) struct OpenConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: ConnectionTask,
    pub(super) place: HostPort,
}

/// What drives a connection: whoever runs it keeps the connection alive, and it ends with it.
pub(super) type ConnectionTask = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connector {
    /// Makes a connection, to a server that answers.
    ///
    /// # Errors
    /// When there is none, in words.
    pub(super) async fn open(&self) -> Result<OpenConnection, String> {
        let place = match &self.goal {
            ConnectTarget::Place(place) => place.clone(),
            ConnectTarget::Master(sentinels) => sentinels.find().await?,
        };
        let (connection, driver) = self.manners.open(&place, Handshake::LoginAndDb, None).await?;
        let mut opened = OpenConnection { connection, driver, place };
        if let ConnectTarget::Master(sentinels) = &self.goal {
            let checked = is_master(&mut opened, self.manners.within).await;
            checked.map_err(|why| format!("{}: {why}", opened.place))?;
            sentinels.connected(&opened.place);
        }
        Ok(opened)
    }
}

/// Whoever Sentinels name must say itself that it is the master: one that was named a moment too early, or too late,
/// is not to be used.
async fn is_master(opened: &mut OpenConnection, within: Duration) -> Result<(), String> {
    let role = redis::cmd("ROLE");
    let asked = async {
        tokio::select! {
            answer = opened.connection.send_packed_command(&role) => answer.map_err(|error| plain(&error)),
            () = &mut opened.driver => Err("it hung up".to_owned()),
        }
    };
    let answer = tokio::time::timeout(within, asked).await.map_err(|_| no_answer(within))??;
    let Value::Array(parts) = answer else {
        // Where ROLE is not permitted, or not known, writing will tell.
        return Ok(());
    };
    match parts.first() {
        Some(Value::BulkString(word)) if word != b"master" => {
            Err("Sentinel names it as the master, and it is a replica".into())
        }
        _ => Ok(()),
    }
}

impl ConnectOptions {
    /// Makes a connection to one place, within the time there is for it. Where there is somebody to be told of `news`,
    /// it is one that can be subscribed on.
    pub(super) async fn open(
        &self,
        place: &HostPort,
        introduce: Handshake,
        news: Option<&Arc<Notify>>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String> {
        let opening = async {
            let stream = TcpStream::connect((place.host.as_str(), place.port))
                .await
                .map_err(|error| format!("{place}: {error}"))?;
            stream.set_nodelay(true).map_err(|error| format!("{place}: {error}"))?;
            match &self.trust {
                None => self.greet(stream, introduce, news).await,
                Some(trust) => self.greet(trust.secure(&place.host, stream).await?, introduce, news).await,
            }
        };
        tokio::time::timeout(self.within, opening)
            .await
            .map_err(|_| format!("{place}: {}", no_answer(self.within)))?
    }

    async fn greet<S>(
        &self,
        stream: S,
        introduce: Handshake,
        news: Option<&Arc<Notify>>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name();
        if introduce == Handshake::LoginAndDb {
            info = info.set_db(self.db);
        }
        if let Some(Login { user, password }) = self.login.as_ref().filter(|_| introduce != Handshake::None) {
            info = info.set_password(password);
            info = user.iter().fold(info, |info, user| info.set_username(user));
        }
        let mut config = AsyncConnectionConfig::new()
            // Deadlines are for who asks to keep.
            .set_response_timeout(None)
            .set_pipeline_buffer_size(CALLS_WAITING_MAX);
        if let Some(news) = news.cloned() {
            info = info.set_protocol(ProtocolVersion::RESP3);
            config = config.set_push_sender(move |_| {
                news.notify_one();
                Ok::<(), Infallible>(())
            });
        }
        let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config)
            .await
            .map_err(|error| plain(&error))?;
        let mut driver: ConnectionTask = Box::pin(driver);
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

pub(super) fn no_answer(within: Duration) -> String {
    format!("no answer within {} ms", within.as_millis())
}
