/*
 * A stand-in for what runs on a developer's machine: a service on loopback, and a client of it.
 *
 *   host_service listen PORTFILE   serve on a free port of 127.0.0.1, write the port to PORTFILE
 *   host_service connect PORT      exit 0 and print the greeting if the service can be reached
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int fail(const char *what) {
    perror(what);
    return 1;
}

static int serve(const char *port_file) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 8) < 0)
        return fail("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0)
        return fail("getsockname");
    FILE *file = fopen(port_file, "w");
    if (!file || fprintf(file, "%d\n", ntohs(address.sin_port)) < 0 || fclose(file) != 0)
        return fail(port_file);
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        if (peer < 0)
            return fail("accept");
        static const char greeting[] = "hello from a service of the host\n";
        if (write(peer, greeting, sizeof greeting - 1) < 0)
            perror("write");
        close(peer);
    }
}

static int reach(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((unsigned short)atoi(port));
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    if (peer < 0)
        return fail("socket");
    if (connect(peer, (struct sockaddr *)&address, sizeof address) < 0)
        return fail("connect");
    char text[64];
    ssize_t got = read(peer, text, sizeof text);
    if (got <= 0)
        return fail("read");
    return fwrite(text, 1, (size_t)got, stdout) == (size_t)got ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "listen") == 0)
        return serve(argv[2]);
    if (argc == 3 && strcmp(argv[1], "connect") == 0)
        return reach(argv[2]);
    fputs("usage: host_service listen PORTFILE | connect PORT\n", stderr);
    return 2;
}
