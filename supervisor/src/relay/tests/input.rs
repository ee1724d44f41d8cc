//! What the user types or pipes in.

use super::*;

#[test]
fn the_end_of_the_users_input_is_the_end_of_the_childs() {
    let mut rig = Rig::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    write_all(rig.typist.take(), bytes.clone());
    let child = read_all(rig.child_stdin.take());
    let mut relay = relay!(rig, Box::new(Identity));
    run(&mut relay, |relay| !relay.is_open(Stream::Stdin));
    assert_eq!(child.join().unwrap(), bytes);
    assert_eq!(relay.moved().stdin, 200_000);
}

#[test]
fn a_child_that_closes_its_input_leaves_the_rest_to_the_user() {
    let mut rig = Rig::new();
    let mut relay = relay!(rig, Box::new(Identity));
    rig.child_stdin = None;
    run(&mut relay, |relay| !relay.is_open(Stream::Stdin));
    rig.typist
        .take()
        .unwrap()
        .write_all(b"for the next")
        .unwrap();
    settle(&mut relay);
    assert_eq!(relay.moved().stdin, 0);
    let mut rest = Vec::new();
    File::from(rig.stdin.try_clone().unwrap())
        .read_to_end(&mut rest)
        .unwrap();
    assert_eq!(rest, b"for the next");
}

#[test]
fn input_is_read_ahead_by_no_more_than_the_childs_pipe() {
    let mut rig = Rig::new();
    let (typist, stdin) = std::os::unix::net::UnixStream::pair().unwrap();
    rig.stdin = stdin.into();
    let typing = std::thread::spawn(move || {
        let mut typist = typist;
        while typist.write_all(&[b'k'; 1000]).is_ok() {}
    });
    let mut relay = relay!(rig, Box::new(Identity));
    settle(&mut relay);
    let taken = relay.moved().stdin;
    assert!(taken > 0 && taken <= 64 * 1024, "{taken} bytes");
    drop(relay);
    drop(rig);
    typing.join().unwrap();
}

#[test]
fn at_a_terminal_less_is_read_ahead() {
    let mut rig = Rig::new();
    let user = Pty::open();
    rig.stdin = user.slave;
    let _raw = Terminal::raw(rig.stdin.as_fd()).unwrap();
    let mut relay = relay!(rig, Box::new(Identity));
    let mut master = File::from(user.master);
    for _ in 0..20 {
        master.write_all(&[b'k'; 1000]).unwrap();
        settle(&mut relay);
    }
    let taken = relay.moved().stdin;
    assert!(taken > 0 && taken <= 4096, "{taken} bytes");
}
