//! Lines are written by a thread of their own. Whoever reads standard error may be slow, or have stopped
//! reading; nobody who has something to say waits for that.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written; more are lost, and counted.
const LINES_MAX: usize = 1_024;
/// How long the end of the program waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// How often room for the last job is looked for within that time.
const FLUSH_ATTEMPTS: u32 = 1_000;

/// Something for the thread to do.
enum Job {
    Line(Vec<u8>),
    /// All lines before this are to be written, then this be told.
    Flush(SyncSender<()>),
}

/// Where lines are handed in.
#[derive(Clone)]
pub(crate) struct LogThread {
    jobs: SyncSender<Job>,
    lost: Arc<AtomicU64>,
}

impl LogThread {
    /// Starts the thread.
    pub(crate) fn start(to: impl Write + Send + 'static) -> io::Result<LogThread> {
        let (jobs, given) = mpsc::sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let also_lost = Arc::clone(&lost);
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&given, to, &also_lost))?;
        Ok(LogThread { jobs, lost })
    }

    /// Waits until what was said is written, but not for long.
    pub(crate) fn finish(&self) {
        let (done, is_done) = mpsc::sync_channel(1);
        let mut flush = Job::Flush(done);
        for _ in 0..FLUSH_ATTEMPTS {
            match self.jobs.try_send(flush) {
                Ok(()) => {
                    let _late = is_done.recv_timeout(FLUSH_TIMEOUT);
                    return;
                }
                // Lines wait to be written; while somebody reads them there is room soon.
                Err(TrySendError::Full(job)) => flush = job,
                Err(TrySendError::Disconnected(_)) => return,
            }
            // Nobody can tell it yet: this only waits.
            let _not_yet = is_done.recv_timeout(FLUSH_TIMEOUT / FLUSH_ATTEMPTS);
        }
    }
}

fn write_all(given: &Receiver<Job>, mut to: impl Write, lost: &AtomicU64) {
    while let Ok(job) = given.recv() {
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _written = writeln!(to, "{lost} lines were lost: nobody read them in time");
        }
        match job {
            // That nobody listens any more is no reason to stop.
            Job::Line(line) => _ = to.write_all(&line),
            Job::Flush(done) => _ = done.try_send(()),
        }
    }
}

impl Write for LogThread {
    /// A whole line at a time, as tracing hands them out.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.jobs.try_send(Job::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LogThread {
    type Writer = LogThread;

    fn make_writer(&'w self) -> LogThread {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Takes nothing while it is locked.
    #[derive(Clone, Default)]
    struct Held(Arc<Mutex<Vec<u8>>>);

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_and_what_is_lost_is_told() {
        let held = Held::default();
        let mut thread = LogThread::start(held.clone()).unwrap();
        let locked = held.0.lock().unwrap();
        for _ in 0..LINES_MAX + 100 {
            thread.write_all(b"said\n").unwrap();
        }
        drop(locked);
        // What waited is written; then there is room for what comes next.
        while thread.jobs.try_send(Job::Line(b"last\n".to_vec())).is_err() {
            std::thread::yield_now();
        }
        thread.finish();
        let written = String::from_utf8(held.0.lock().unwrap().clone()).unwrap();
        let lost: usize = written
            .lines()
            .filter_map(|line| line.strip_suffix(" lines were lost: nobody read them in time"))
            .map(|count| count.parse::<usize>().unwrap())
            .sum();
        assert_eq!(written.matches("said\n").count() + lost, LINES_MAX + 100);
        assert!(lost > 0 && written.ends_with("last\n"), "{lost}");
    }
}
