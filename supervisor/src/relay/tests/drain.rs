//! What an ended child has left behind.

use super::*;

#[test]
fn drain_passes_on_what_an_ended_child_left() {
    for filter in filters() {
        let mut rig = Rig::new();
        let mut relay = relay!(rig, filter);
        let reader = read_all(rig.out_reader.take());
        let left = vec![b'l'; 60_000];
        rig.child_stdout.take().unwrap().write_all(&left).unwrap();
        rig.child_stderr = None;
        assert_eq!(relay.drain(&[], PATIENCE).unwrap(), Drained::Complete);
        drop(relay);
        drop(rig);
        assert_eq!(reader.join().unwrap(), left);
    }
}

#[test]
fn drain_waits_for_a_slow_reader_longer_than_it_waits_for_silence() {
    let mut rig = Rig::new();
    let mut relay = relay!(rig, Box::new(Copying));
    let mut reader = rig.out_reader.take().unwrap();
    let left = vec![b'l'; 200_000];
    let writer = write_all(rig.child_stdout.take(), left.clone());
    rig.child_stderr = None;
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let drained = relay.drain(&[], Duration::from_millis(100)).unwrap();
    assert_eq!(drained, Drained::Complete);
    drop(relay);
    drop(rig);
    writer.join().unwrap();
    assert_eq!(reader.join().unwrap(), left);
}

#[test]
fn drain_gives_up_a_stream_that_somebody_else_holds() {
    let mut rig = Rig::new();
    let mut relay = relay!(rig, Box::new(Identity));
    rig.child_stderr = None;
    let start = Instant::now();
    assert_eq!(relay.drain(&[], 5 * TICK).unwrap(), Drained::Late);
    assert!(start.elapsed() >= 5 * TICK && start.elapsed() < PATIENCE);
    rig.child_stdout.take().unwrap().write(b"x").unwrap_err();
}

#[test]
fn drain_hears_what_is_watched_and_may_be_resumed() {
    let mut rig = Rig::new();
    let mut relay = relay!(rig, Box::new(Identity));
    let (watched, write) = pipe();
    File::from(write).write_all(b"!").unwrap();
    let drained = relay.drain(&[watched.as_fd()], PATIENCE).unwrap();
    assert!(matches!(drained, Drained::Interrupted(ready) if ready.contains(0)));
    rig.child_stdout = None;
    rig.child_stderr = None;
    assert_eq!(relay.drain(&[], PATIENCE).unwrap(), Drained::Complete);
}
