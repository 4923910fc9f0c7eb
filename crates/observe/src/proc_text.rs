//! The texts of /proc about one thread, parsed (Documentation/filesystems/proc.rst,
//! Documentation/scheduler/sched-stats.rst of Linux).

/// What `stat` says. Ticks are of `sysconf(_SC_CLK_TCK)`; of a process's own file they are of all its threads,
/// those that ended included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The scheduler's state: R (running or runnable), S (asleep), D (asleep, waiting for a device), Z, T, I, …
    pub state: char,
    /// The parent process.
    pub parent: i32,
    /// CPU time in user mode.
    pub user_ticks: u64,
    /// CPU time in the kernel.
    pub system_ticks: u64,
    /// CPU time of all children that ended and were waited for.
    pub children_ticks: u64,
    /// How many threads the process has.
    pub thread_count: u64,
    /// When the thread began, after the boot.
    pub start_ticks: u64,
    /// Time spent waiting for block devices; 0 where delay accounting is off.
    pub block_delay_ticks: u64,
}

/// Reads `stat`. The name in parentheses may hold anything, so what follows its last ')' is taken.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let mut words = std::str::from_utf8(&text[end + 1..])
        .ok()?
        .split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    // Field 4 is the first of these; numbers as in proc.rst, table 1-4.
    let numbers: Vec<u64> = words
        .take(39)
        .map(|word| word.parse().unwrap_or_default())
        .collect();
    let field = |number: usize| numbers.get(number - 4).copied();
    Some(Stat {
        state,
        parent: i32::try_from(field(4)?).ok()?,
        user_ticks: field(14)?,
        system_ticks: field(15)?,
        children_ticks: field(16)? + field(17)?,
        thread_count: field(20)?,
        start_ticks: field(22)?,
        block_delay_ticks: field(42).unwrap_or_default(),
    })
}

/// What `schedstat` says: exact nanoseconds, kept by the scheduler itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Time on a processor.
    pub run_ns: u64,
    /// Time runnable, waiting for a processor.
    pub delay_ns: u64,
    /// How often it was put on a processor.
    pub slices: u64,
}

/// Reads `schedstat`.
pub fn parse_schedstat(text: &[u8]) -> Option<Scheduled> {
    let mut words = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some(Scheduled {
        run_ns: next()?,
        delay_ns: next()?,
        slices: next()?,
    })
}

/// Reads `io`: the bytes that block devices delivered and took for it.
pub fn parse_io(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some((value("read_bytes:")?, value("write_bytes:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = b"8597 (a) R (b) S 8584 8597 8597 0 -1 4194560 5951 60145 0 10 2 7 59 24 20 0 3 0 177631 \
                     5124096 955 18446744073709551615 1 2 3 0 0 0 65536 4 1132560123 1 0 0 17 0 0 0 9 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.parent), ('S', 8584));
        assert_eq!(
            (stat.user_ticks, stat.system_ticks, stat.children_ticks),
            (2, 7, 83)
        );
        assert_eq!((stat.thread_count, stat.start_ticks), (3, 177_631));
        assert_eq!(stat.block_delay_ticks, 9);
    }

    #[test]
    fn what_is_cut_short_is_no_reading() {
        assert_eq!(parse_stat(b"1 (x) S 2"), None);
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_schedstat(b"12 3"), None);
        assert_eq!(parse_io(b"read_bytes: 4096\n"), None);
    }

    #[test]
    fn schedstat_and_io() {
        let scheduled = parse_schedstat(b"214520 129798 2\n").unwrap();
        assert_eq!(
            (scheduled.run_ns, scheduled.delay_ns, scheduled.slices),
            (214_520, 129_798, 2)
        );
        let text = b"rchar: 1\nread_bytes: 8192\nwrite_bytes: 4096\ncancelled_write_bytes: 5\n";
        assert_eq!(parse_io(text), Some((8192, 4096)));
    }
}
