//! The thread that writes the log. The reader of standard error may be slow or have stopped reading, and worker threads
//! must not wait for it: they put lines into a bounded queue, and lines that do not fit are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Capacity of the queue of lines; further lines are dropped and counted.
const LINES_MAX: usize = 1_024;
/// How long the end of the program waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// How often the flush job is tried within that time if the queue is full.
const FLUSH_ATTEMPTS: u32 = 1_000;

/// A job for the thread.
enum Job {
    Line(Vec<u8>),
    /// Answer on this channel once all lines before it are written.
    Flush(SyncSender<()>),
}

/// The handle to the thread; it takes lines as a [`Write`].
#[derive(Clone)]
pub(crate) struct LogThread {
    jobs: SyncSender<Job>,
    lost: Arc<AtomicU64>,
}

impl LogThread {
    /// Starts the thread.
    pub(crate) fn start(to: impl Write + Send + 'static) -> io::Result<LogThread> {
        let (jobs, received) = mpsc::sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let also_lost = Arc::clone(&lost);
        std::thread::Builder::new().name("log".into()).spawn(move || write_all(&received, to, &also_lost))?;
        Ok(LogThread { jobs, lost })
    }

    /// Waits until all lines so far are written, at most [`FLUSH_TIMEOUT`].
    pub(crate) fn finish(&self) {
        let (done, is_done) = mpsc::sync_channel(1);
        let mut flush = Job::Flush(done);
        for _ in 0..FLUSH_ATTEMPTS {
            match self.jobs.try_send(flush) {
                Ok(()) => {
                    let _late = is_done.recv_timeout(FLUSH_TIMEOUT);
                    return;
                }
                // The queue is full; while standard error is read, it empties soon.
                Err(TrySendError::Full(job)) => flush = job,
                Err(TrySendError::Disconnected(_)) => return,
            }
            // The job is not queued yet, so nothing can arrive here: this only sleeps.
            let _not_yet = is_done.recv_timeout(FLUSH_TIMEOUT / FLUSH_ATTEMPTS);
        }
    }
}

fn write_all(received: &Receiver<Job>, mut to: impl Write, lost: &AtomicU64) {
    while let Ok(job) = received.recv() {
        let lost = lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _written = writeln!(to, "{lost} log lines were dropped: standard error was not read in time");
        }
        match job {
            // Go on even if standard error is closed.
            Job::Line(line) => _ = to.write_all(&line),
            Job::Flush(done) => _ = done.try_send(()),
        }
    }
}

impl Write for LogThread {
    /// tracing calls this with one whole line at a time.
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

    /// A writer that blocks while it is locked.
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
            thread.write_all(b"line\n").unwrap();
        }
        drop(locked);
        // Once queued lines are written, the queue has capacity for the last one.
        while thread.jobs.try_send(Job::Line(b"last\n".to_vec())).is_err() {
            std::thread::yield_now();
        }
        thread.finish();
        let written = String::from_utf8(held.0.lock().unwrap().clone()).unwrap();
        let lost: usize = written
            .lines()
            .filter_map(|line| {
                line.strip_suffix(" log lines were dropped: standard error was not read in time")
            })
            .map(|count| count.parse::<usize>().unwrap())
            .sum();
        assert_eq!(written.matches("line\n").count() + lost, LINES_MAX + 100);
        assert!(lost > 0 && written.ends_with("last\n"), "{lost}");
    }
}
