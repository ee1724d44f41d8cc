//! What the child puts out, and the loop as such.

use super::*;

#[test]
fn a_hundred_megabytes_pass_a_slow_reader_in_bounded_memory() {
    const SIZE: usize = 100 << 20;
    for filter in filters() {
        let mut rig = Rig::new();
        // A period that is no divisor of any buffer's size shows lost and swapped pieces.
        let pattern: Vec<u8> = (0..=250).collect();
        let bytes: Vec<u8> = pattern.iter().copied().cycle().take(SIZE).collect();
        let writer = write_all(rig.child_stdout.take(), bytes);
        let mut file = rig.out_reader.take().unwrap();
        let reader = std::thread::spawn(move || {
            let (mut total, mut next) = (0, 0);
            let mut buffer = vec![0; 300_000];
            loop {
                let length = file.read(&mut buffer).unwrap();
                if length == 0 {
                    return total;
                }
                for byte in &buffer[..length] {
                    assert_eq!(*byte, next);
                    next = (next + 1) % 251;
                }
                let is_slow = total / (10 << 20) != (total + length) / (10 << 20);
                total += length;
                if is_slow {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        let mut relay = relay!(rig, filter);
        let mut most = 0;
        run(&mut relay, |relay| {
            most = most.max(relay.capacity());
            !relay.is_open(Stream::Stdout)
        });
        assert_eq!(relay.moved().output, SIZE as u64);
        assert!(most <= 2 * CHUNK, "{most} bytes of buffers");
        drop(relay);
        drop(rig);
        writer.join().unwrap();
        assert_eq!(reader.join().unwrap(), SIZE);
    }
}

#[test]
fn a_reader_that_stops_stops_the_child_and_not_the_loop() {
    for filter in filters() {
        let mut rig = Rig::new();
        let child = rig.child_stdout.take().unwrap();
        rustix::fs::fcntl_setfl(&child, OFlags::NONBLOCK).unwrap();
        let mut relay = relay!(rig, filter);
        let mut accepted = 0;
        let start = Instant::now();
        for _ in 0..200 {
            while let Ok(length) = (&child).write(&[b'x'; 4096]) {
                accepted += length;
            }
            relay.step(&[], Some(Duration::from_millis(1))).unwrap();
        }
        let full = Instant::now();
        relay.step(&[], Some(5 * TICK)).unwrap();
        assert!(
            full.elapsed() >= 5 * TICK,
            "it asks for what it cannot pass on"
        );
        // The child's pipe, one buffer, the user's pipe.
        assert!(accepted <= 3 * CHUNK, "{accepted} bytes were taken");
        assert!(accepted > CHUNK);
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn every_byte_value_arrives_as_it_was() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1024).collect();
    for filter in filters() {
        let mut rig = Rig::new();
        let out = read_all(rig.out_reader.take());
        let err = read_all(rig.err_reader.take());
        let mut relay = relay!(rig, filter);
        write_all(rig.child_stdout.take(), bytes.clone());
        write_all(
            rig.child_stderr.take(),
            bytes.iter().rev().copied().collect(),
        );
        run(&mut relay, |relay| {
            !relay.is_open(Stream::Stdout) && !relay.is_open(Stream::Stderr)
        });
        drop(relay);
        drop(rig);
        assert_eq!(out.join().unwrap(), bytes);
        assert!(err.join().unwrap().iter().rev().eq(&bytes));
    }
}

#[test]
fn a_closed_reader_closes_that_stream_of_the_child_alone() {
    for filter in filters() {
        let mut rig = Rig::new();
        let mut relay = relay!(rig, filter);
        // Nothing is written: the end is noticed all the same.
        rig.out_reader = None;
        run(&mut relay, |relay| !relay.is_open(Stream::Stdout));
        let error = rig.child_stdout.take().unwrap().write(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let err = read_all(rig.err_reader.take());
        write_all(rig.child_stderr.take(), b"still here".to_vec());
        run(&mut relay, |relay| !relay.is_open(Stream::Stderr));
        drop(relay);
        drop(rig);
        assert_eq!(err.join().unwrap(), b"still here");
    }
}

#[test]
fn a_reader_that_goes_with_bytes_under_way_closes_the_stream() {
    for filter in filters() {
        let mut rig = Rig::new();
        let mut relay = relay!(rig, filter);
        let mut child = rig.child_stdout.take().unwrap();
        let writer = std::thread::spawn(move || while child.write_all(&[b'x'; 10_000]).is_ok() {});
        // A pipe that nobody reads holds 64 KiB at most, and less in pieces.
        run(&mut relay, |relay| relay.moved().output >= 20_000);
        rig.out_reader = None;
        run(&mut relay, |relay| !relay.is_open(Stream::Stdout));
        writer.join().unwrap();
    }
}

#[test]
fn one_pipe_for_both_outputs_keeps_their_order() {
    let mut rig = Rig::new();
    let Some(ChildEnds::Pipes { stderr, .. }) = &mut rig.ends else {
        panic!("a rig has pipes");
    };
    *stderr = None;
    let mut out = rig.child_stdout.take().unwrap();
    let mut err = out.try_clone().unwrap();
    let mut expected = Vec::new();
    for number in 0..500 {
        for (name, file) in [("out", &mut out), ("err", &mut err)] {
            let line = format!("{name} {number}\n");
            file.write_all(line.as_bytes()).unwrap();
            expected.extend_from_slice(line.as_bytes());
        }
    }
    drop((out, err));
    let reader = read_all(rig.out_reader.take());
    let mut relay = relay!(rig, Box::new(Identity));
    assert!(!relay.is_open(Stream::Stderr));
    run(&mut relay, |relay| !relay.is_open(Stream::Stdout));
    drop(relay);
    drop(rig);
    assert_eq!(reader.join().unwrap(), expected);
}

#[test]
fn the_users_descriptors_keep_their_flags() {
    let mut rig = Rig::new();
    let user = Pty::open();
    rig.stdout = user.slave;
    let flags =
        |rig: &Rig| [&rig.stdin, &rig.stdout, &rig.stderr].map(|fd| fcntl_getfl(fd).unwrap());
    let before = flags(&rig);
    let mut relay = relay!(rig, Box::new(Identity));
    rig.child_stdout
        .take()
        .unwrap()
        .write_all(b"shown")
        .unwrap();
    run(&mut relay, |relay| !relay.is_open(Stream::Stdout));
    drop(relay);
    assert_eq!(flags(&rig), before);
    assert!(!before.iter().any(|flags| flags.contains(OFlags::NONBLOCK)));
    let mut shown = [0; 5];
    File::from(user.master).read_exact(&mut shown).unwrap();
    assert_eq!(&shown, b"shown");
}

#[test]
fn a_stopped_terminal_does_not_hold_the_loop_up() {
    let mut rig = Rig::new();
    let user = Pty::open();
    rig.stdout = user.slave;
    let mut relay = relay!(rig, Box::new(Copying));
    let child = rig.child_stdout.take();
    let writer = write_all(child, vec![b'x'; 500_000]);
    // Nobody reads the terminal: the relay must come back from each step.
    settle(&mut relay);
    assert!(relay.moved().output < 500_000);
    let mut master = File::from(user.master);
    let reader = std::thread::spawn(move || {
        let mut shown = vec![0; 500_000];
        master.read_exact(&mut shown).unwrap();
        shown
    });
    run(&mut relay, |relay| !relay.is_open(Stream::Stdout));
    assert_eq!(reader.join().unwrap(), vec![b'x'; 500_000]);
    writer.join().unwrap();
}

#[test]
fn files_are_written_whole_and_appended_to() {
    for filter in filters() {
        let mut rig = Rig::new();
        let plain = tempfile::NamedTempFile::new().unwrap();
        let appended = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(appended.path(), b"before ").unwrap();
        rig.stdout = plain.reopen().unwrap().into();
        let options = File::options().append(true).open(appended.path());
        rig.stderr = options.unwrap().into();
        let mut relay = relay!(rig, filter);
        write_all(rig.child_stdout.take(), vec![b'p'; 300_000]);
        write_all(rig.child_stderr.take(), b"after".to_vec());
        run(&mut relay, |relay| {
            !relay.is_open(Stream::Stdout) && !relay.is_open(Stream::Stderr)
        });
        assert_eq!(std::fs::read(plain.path()).unwrap(), vec![b'p'; 300_000]);
        assert_eq!(std::fs::read(appended.path()).unwrap(), b"before after");
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_stream() {
    for filter in filters() {
        let mut rig = Rig::new();
        rig.stdout = File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
            .into();
        let mut relay = relay!(rig, filter);
        let mut child = rig.child_stdout.take().unwrap();
        child.write_all(b"lost").unwrap();
        let error = (0..100).find_map(|_| relay.step(&[], Some(TICK)).err());
        let Some(RelayError::Write { stream, source }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(stream, Stream::Stdout);
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(!relay.is_open(Stream::Stdout) && relay.is_open(Stream::Stderr));
        child.write(b"x").unwrap_err();
    }
}

#[test]
fn watched_descriptors_are_told_apart() {
    let mut rig = Rig::new();
    let mut relay = relay!(rig, Box::new(Identity));
    let (silent, _silent_write) = pipe();
    let (loud, loud_write) = pipe();
    let watched = [silent.as_fd(), loud.as_fd()];
    let ready = relay.step(&watched, Some(TICK)).unwrap();
    assert!(ready.is_empty());
    File::from(loud_write).write_all(b"!").unwrap();
    let ready = relay.step(&watched, None).unwrap();
    assert!(ready.contains(1) && !ready.contains(0));
}

#[test]
fn a_filter_sees_each_channel_and_its_end() {
    let mut rig = Rig::new();
    let out = read_all(rig.out_reader.take());
    let err = read_all(rig.err_reader.take());
    let mut relay = relay!(rig, Box::new(Marking::default()));
    rig.child_stdout.take().unwrap().write_all(b"so!").unwrap();
    rig.child_stderr.take().unwrap().write_all(b"oh").unwrap();
    run(&mut relay, |relay| {
        !relay.is_open(Stream::Stdout) && !relay.is_open(Stream::Stderr)
    });
    drop(relay);
    drop(rig);
    assert_eq!(out.join().unwrap(), b"so!!.");
    assert_eq!(err.join().unwrap(), b"oh.");
}

#[test]
fn an_idle_relay_sleeps() {
    let mut rig = Rig::new();
    let mut relay = relay!(rig, Box::new(Identity));
    settle(&mut relay);
    let start = Instant::now();
    relay.step(&[], Some(5 * TICK)).unwrap();
    assert!(
        start.elapsed() >= 5 * TICK,
        "a level-triggered event is not consumed"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However the bytes are cut on their way in and out, they are the same bytes.
    #[test]
    fn what_goes_in_comes_out(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..3000), 0..60),
        read_size in 1_usize..9000,
        copies in any::<bool>(),
    ) {
        let mut rig = Rig::new();
        let expected = pieces.concat();
        let mut child = rig.child_stdout.take().unwrap();
        let writer = std::thread::spawn(move || {
            for piece in pieces {
                child.write_all(&piece).unwrap();
            }
        });
        let mut file = rig.out_reader.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut buffer = vec![0; read_size];
            while let length @ 1.. = file.read(&mut buffer).unwrap() {
                bytes.extend_from_slice(&buffer[..length]);
            }
            bytes
        });
        let filter: Box<dyn Filter> = if copies { Box::new(Copying) } else { Box::new(Identity) };
        let mut relay = relay!(rig, filter);
        run(&mut relay, |relay| !relay.is_open(Stream::Stdout));
        drop(relay);
        drop(rig);
        writer.join().unwrap();
        prop_assert_eq!(reader.join().unwrap(), expected);
    }
}
