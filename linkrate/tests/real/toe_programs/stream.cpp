// A program that knows nothing of linkrate: it carries a stream of known bytes in each direction over one
// TCP connection, in one of the ways in which programs wait for sockets, and checks every byte.
//
// stream far PORT BYTES WAIT_MS          listens, and waits before it sends and reads, as STREAM_WAY if that is set
// stream join ADDRESS PORT BYTES         connects, and does the same at once
// stream connect WAY ADDRESS PORT BYTES
// stream accept WAY PORT BYTES
// stream hold PORT COUNT                 accepts so many, and resets all of them when it ends
// stream idle ADDRESS PORT COUNT         connects so many, and waits for what becomes of the last one
// stream signal PID COUNT EVERY_US       sends so many signals, of which the kernel never merges two
//
// WAY: block, late, poll, epoll, edge, threads, fork, dup, timeout; signals, slowly and under signals of all
// kinds; slow, as a peer of that; spawn, with a thread that waits until its child has opened the FIFO STREAM_FIFO, and
// that then prints "spawned" and how long, in ms, another thread has stood still meanwhile. Prints "connected FD", and
// at the end "whole" with what TCP says of the connection.

#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t PIECE = 50000;

[[noreturn]] static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

// The bytes of one direction: no two blocks alike, so what is misplaced shows.
struct Stream {
    uint64_t state, at = 0, bytes;
    Stream(uint64_t seed, uint64_t bytes) : state(seed * 0x9e3779b97f4a7c15ull), bytes(bytes) {}
    unsigned char next() {
        if (at % 8 == 0) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        return (unsigned char)(state >> (at++ % 8 * 8));
    }
    bool done() const { return at >= bytes; }
};

struct Sender {
    Stream stream;
    unsigned char piece[PIECE];
    size_t have = 0, sent = 0;
    Sender(uint64_t seed, uint64_t bytes) : stream(seed, bytes) {}
    bool done() const { return stream.done() && sent == have; }
    // one call; false where it would wait
    bool step(int fd, int flags) {
        if (sent == have) {
            have = sent = 0;
            while (have < PIECE && !stream.done()) piece[have++] = stream.next();
        }
        ssize_t n = send(fd, piece + sent, have - sent, flags | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) fail("send");
        sent += n;
        return true;
    }
};

struct Receiver {
    Stream stream;
    Receiver(uint64_t seed, uint64_t bytes) : stream(seed, bytes) {}
    bool done() const { return stream.done(); }
    bool step(int fd, int flags) {
        static thread_local unsigned char piece[PIECE];
        size_t want = stream.bytes - stream.at;
        ssize_t n = recv(fd, piece, want < PIECE ? want : PIECE, flags);
        if (n < 0 && errno == EAGAIN) return false;
        if (n < 0) fail("recv");
        if (n == 0) fail("the stream ends too early");
        for (ssize_t i = 0; i < n; i++)
            if (piece[i] != stream.next()) {
                fprintf(stderr, "byte %llu is wrong\n", (unsigned long long)stream.at - 1);
                exit(1);
            }
        return true;
    }
};

static int fd_of;
static Sender *sender;
static Receiver *receiver;

static void *send_all(void *) {
    while (!sender->done()) sender->step(fd_of, 0);
    return nullptr;
}

static void *receive_all(void *) {
    while (!receiver->done()) receiver->step(fd_of, 0);
    return nullptr;
}

static void set_nonblocking(int fd) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK)) fail("fcntl");
}

static void with_epoll(int fd, bool edge) {
    set_nonblocking(fd);
    int set = epoll_create1(EPOLL_CLOEXEC);
    auto events = [&] {
        uint32_t all = edge ? uint32_t(EPOLLET) : 0u;
        if (!receiver->done()) all |= EPOLLIN;
        if (!sender->done()) all |= EPOLLOUT;
        return all;
    };
    epoll_event event{};
    event.events = events();
    event.data.u64 = 0xfeedbeef00ull + fd;
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
    while (!sender->done() || !receiver->done()) {
        epoll_event ready{};
        int n = epoll_wait(set, &ready, 1, -1);
        if (n < 0) fail("epoll_wait");
        if (ready.data.u64 != 0xfeedbeef00ull + fd) fail("the data of an event");
        while (!receiver->done() && receiver->step(fd, 0)) {}
        while (!sender->done() && sender->step(fd, 0)) {}
        event.events = events();
        if (!edge && epoll_ctl(set, EPOLL_CTL_MOD, fd, &event)) fail("epoll_ctl");
    }
}

static std::atomic<long> queued, timed, nested, preempted;
static std::atomic<bool> over, fast;

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (sigaction(signal, &action, nullptr)) fail("sigaction");
}

// slowly until SIGUSR2, so that there is time for many moves, whatever signals come
static void slow_down() {
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 5000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!fast && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {}
}

static void *send_slowly(void *) {
    for (; !sender->done(); slow_down()) sender->step(fd_of, 0);
    return nullptr;
}

// starts programs, as posix_spawn does: the thread stands still until its child has executed another program
static void *spawn_programs(void *) {
    char name[] = "true", *words[] = {name, nullptr}, *none[] = {nullptr};
    for (; !over; usleep(20000)) {
        pid_t child;
        int status = 1;
        if (posix_spawnp(&child, name, nullptr, nullptr, words, none)) continue;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        if (status) fail("true");
    }
    return nullptr;
}

static void carry_slowly() {
    pthread_t one, other;
    pthread_create(&one, nullptr, send_slowly, nullptr);
    pthread_create(&other, nullptr, receive_all, nullptr);
    pthread_join(one, nullptr);
    pthread_join(other, nullptr);
}

// A stream under a timer whose handler is interrupted itself, signals to single threads as the runtime of Go
// sends them, and signals of another program.
static void under_signals() {
    handle(SIGRTMIN, [](int) { queued++; });
    handle(SIGURG, [](int) { preempted++; });
    handle(SIGUSR1, [](int) { nested++; });
    handle(SIGUSR2, [](int) { fast = true; });
    handle(SIGALRM, [](int) {
        timed++;
        raise(SIGUSR1);
    });
    itimerval every{{0, 8000}, {0, 8000}};
    if (setitimer(ITIMER_REAL, &every, nullptr)) fail("setitimer");
    pthread_t one, other, spawns;
    pthread_create(&one, nullptr, send_slowly, nullptr);
    pthread_create(&other, nullptr, receive_all, nullptr);
    pthread_create(&spawns, nullptr, spawn_programs, nullptr);
    for (; !sender->done() || !receiver->done(); usleep(1000)) {
        pthread_kill(one, SIGURG);
        pthread_kill(other, SIGURG);
    }
    over = true;
    for (pthread_t thread : {one, other, spawns}) pthread_join(thread, nullptr);
    every = {};
    setitimer(ITIMER_REAL, &every, nullptr);
    if (!timed || nested != timed || !preempted) fail("signals are missing");
    printf("signals %ld\n", queued.load());
}

static std::atomic<long> longest_ms;

static void *tick(void *) {
    timespec last{}, now{};
    clock_gettime(CLOCK_MONOTONIC, &last);
    for (; !over; last = now) {
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
        long ms = (now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000;
        if (ms > longest_ms) longest_ms = ms;
    }
    return nullptr;
}

static void *wait_for_child(void *) {
    const char *path = getenv("STREAM_FIFO");
    pid_t child = vfork();
    if (child == 0) {
        close(fd_of);
        // as posix_spawn does, with a call that the filter lets wait
        dup2(open(path, O_RDONLY), 0);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    over = true;
    printf("spawned %ld\n", longest_ms.load());
    fflush(stdout);
    return nullptr;
}

static int signal_often(pid_t process, int count, int every_us) {
    int sent = 0;
    for (int n = 0; n < count; n++, usleep(every_us)) {
        sigval value{};
        value.sival_int = n;
        sent += sigqueue(process, SIGRTMIN, value) == 0;
    }
    printf("sent %d\n", sent);
    return 0;
}

static void carry(const std::string &way, int fd, bool far, uint64_t bytes) {
    sender = new Sender(far ? 2 : 1, bytes);
    receiver = new Receiver(far ? 1 : 2, bytes);
    fd_of = fd;
    if (way == "block" || way == "late") {
        // the far end sends and receives at the same time
        receive_all(nullptr);
        send_all(nullptr);
    } else if (way == "slow") {
        handle(SIGUSR2, [](int) { fast = true; });
        carry_slowly();
    } else if (way == "signals") {
        under_signals();
    } else if (way == "spawn") {
        pthread_t thread, ticks;
        pthread_create(&thread, nullptr, wait_for_child, nullptr);
        pthread_create(&ticks, nullptr, tick, nullptr);
        receive_all(nullptr);
        send_all(nullptr);
        pthread_join(thread, nullptr);
        pthread_join(ticks, nullptr);
    } else if (way == "timeout") {
        timeval limit{5, 0};
        if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit)) fail("SO_RCVTIMEO");
        receive_all(nullptr);
        send_all(nullptr);
    } else if (way == "dup") {
        fd_of = dup(fd);
        close(fd);
        receive_all(nullptr);
        send_all(nullptr);
    } else if (way == "fork") {
        pid_t child = fork();
        if (child == 0) {
            receive_all(nullptr);
            _exit(0);
        }
        send_all(nullptr);
        int status = 1;
        if (waitpid(child, &status, 0) != child || status) fail("the child");
    } else if (way == "poll") {
        set_nonblocking(fd);
        while (!sender->done() || !receiver->done()) {
            short events = (sender->done() ? 0 : POLLOUT) | (receiver->done() ? 0 : POLLIN);
            pollfd polled{fd, events, 0};
            if (poll(&polled, 1, -1) < 0) fail("poll");
            while (!receiver->done() && receiver->step(fd, 0)) {}
            while (!sender->done() && sender->step(fd, 0)) {}
        }
    } else if (way == "epoll" || way == "edge") {
        with_epoll(fd, way == "edge");
    } else {
        pthread_t one, other;
        pthread_create(&one, nullptr, send_all, nullptr);
        pthread_create(&other, nullptr, receive_all, nullptr);
        pthread_join(one, nullptr);
        pthread_join(other, nullptr);
    }
}

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    if (getsockopt(fd, level, name, &value, &length)) fail("getsockopt");
    return value;
}

static void expect(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

// What a program may ask and set means what it meant.
static void ask(int fd, const sockaddr_in *far) {
    sockaddr_in own{}, peer{};
    socklen_t length = sizeof own;
    if (getsockname(fd, (sockaddr *)&own, &length)) fail("getsockname");
    expect(own.sin_family == AF_INET && length == sizeof own && own.sin_port, "own name");
    length = sizeof peer;
    if (getpeername(fd, (sockaddr *)&peer, &length)) fail("getpeername");
    expect(peer.sin_family == AF_INET && peer.sin_port, "far name");
    expect(!far || (peer.sin_port == far->sin_port && !memcmp(&peer.sin_addr, &far->sin_addr, 4)), "far address");
    // less room than there is
    unsigned char little[4];
    length = sizeof little;
    if (getpeername(fd, (sockaddr *)little, &length)) fail("getpeername");
    expect(length == sizeof peer && !memcmp(little, &peer, sizeof little), "a name in little room");
    length = sizeof peer;
    expect(getpeername(fd, (sockaddr *)8, &length) == -1 && errno == EFAULT, "a wild address");
    expect(option(fd, SOL_SOCKET, SO_ERROR) == 0, "SO_ERROR");
    expect(option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET, "SO_DOMAIN");
    expect(option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP, "SO_PROTOCOL");
    expect(option(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM, "SO_TYPE");
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) fail("TCP_NODELAY");
    expect(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1, "TCP_NODELAY");
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on)) fail("SO_KEEPALIVE");
    expect(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1, "SO_KEEPALIVE");
    int room = 100000;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room)) fail("SO_SNDBUF");
    expect(option(fd, SOL_SOCKET, SO_SNDBUF) == 200000, "SO_SNDBUF");
    char name[32] = "reno";
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name))) fail("TCP_CONGESTION");
    memset(name, 0, sizeof name);
    length = sizeof name;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length)) fail("TCP_CONGESTION");
    expect(!strcmp(name, "reno"), "TCP_CONGESTION");
    errno = 0;
    expect(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, 1) == -1 && errno == EINVAL, "a short value");
}

// Nothing of the lab's rights or memory comes with a connection at the adapter.
static void ask_for_privileges(int fd) {
    int big = 64 << 20, seven = 7, on = 1;
    auto refused = [fd](int name, int *value) {
        return setsockopt(fd, SOL_SOCKET, name, value, sizeof *value) == -1 && errno == EPERM;
    };
    if (geteuid()) {
        expect(refused(SO_SNDBUFFORCE, &big), "SO_SNDBUFFORCE");
        expect(refused(SO_MARK, &seven), "SO_MARK");
        expect(refused(SO_PRIORITY, &seven), "SO_PRIORITY");
    } else {
        if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &seven, sizeof seven)) fail("SO_PRIORITY");
        expect(option(fd, SOL_SOCKET, SO_PRIORITY) == 7, "SO_PRIORITY");
    }
    // a filter is in the memory of the program
    sock_filter all{BPF_RET | BPF_K, 0, 0, 0xffffffff};
    sock_fprog program{1, &all};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program)) fail("SO_ATTACH_FILTER");
    if (setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof on)) fail("SO_LOCK_FILTER");
    char much[65536];
    socklen_t length = sizeof much;
    if (getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, much, &length)) fail("SO_GET_FILTER");
    expect(length == 1 && !memcmp(much, &all, sizeof all), "SO_GET_FILTER");
    errno = 0;
    expect(setsockopt(fd, IPPROTO_IP, 64, much, sizeof much) == -1, "a table of addresses");
    expect(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) == -1, "TCP_REPAIR");
}

static int tcp_socket() {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    return fd;
}

static int listen_at(const char *port, int backlog) {
    int listening = tcp_socket(), on = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(atoi(port));
    if (bind(listening, (sockaddr *)&own, sizeof own) || listen(listening, backlog)) fail("listen");
    printf("listens\n");
    fflush(stdout);
    return listening;
}

static int accept_one(const char *port, int flags) {
    int listening = listen_at(port, 8);
    sockaddr_in far{};
    socklen_t length = sizeof far;
    int fd = accept4(listening, (sockaddr *)&far, &length, flags);
    if (fd < 0) fail("accept");
    expect(length == sizeof far && far.sin_family == AF_INET && far.sin_port, "the address of accept");
    close(listening);
    return fd;
}

static int hold(const char *port, int connections) {
    int listening = listen_at(port, 4096);
    linger reset{1, 0};
    while (connections--) {
        int fd = accept(listening, nullptr, nullptr);
        if (fd < 0) fail("accept");
        if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset)) fail("SO_LINGER");
    }
    printf("holds\n");
    fflush(stdout);
    pause();
    return 0;
}

static int idle(const char *address, const char *port, int connections) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(atoi(port));
    inet_pton(AF_INET, address, &to.sin_addr);
    int fd = -1;
    while (connections--) {
        fd = tcp_socket();
        if (connect(fd, (sockaddr *)&to, sizeof to)) fail("connect");
    }
    printf("idle\n");
    fflush(stdout);
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    printf("%s\n", n < 0 ? strerror(errno) : "no error");
    return 0;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    std::string role = words[1];
    if (role == "hold") return hold(words[2], atoi(words[3]));
    if (count < 5) return 2;
    if (role == "signal") return signal_often(atoi(words[2]), atoi(words[3]), atoi(words[4]));
    if (role == "idle") return idle(words[2], words[3], atoi(words[4]));
    if (role == "far") {
        int fd = accept_one(words[2], 0);
        usleep(atoi(words[4]) * 1000);
        const char *way = getenv("STREAM_WAY");
        carry(way ? way : "threads", fd, true, strtoull(words[3], nullptr, 10));
        char byte;
        expect(recv(fd, &byte, 1, 0) == 0, "no end of the stream");
        return 0;
    }
    if (role == "join") {
        int fd = tcp_socket();
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(atoi(words[3]));
        inet_pton(AF_INET, words[2], &to.sin_addr);
        if (connect(fd, (sockaddr *)&to, sizeof to)) fail("connect");
        carry("threads", fd, true, strtoull(words[4], nullptr, 10));
        char byte;
        expect(recv(fd, &byte, 1, 0) == 0, "no end of the stream");
        return 0;
    }
    std::string way = words[2];
    int fd;
    uint64_t bytes;
    sockaddr_in far{};
    if (role == "accept") {
        fd = accept_one(words[3], way == "epoll" ? SOCK_NONBLOCK | SOCK_CLOEXEC : 0);
        bytes = strtoull(words[4], nullptr, 10);
    } else {
        fd = tcp_socket();
        bytes = strtoull(words[5], nullptr, 10);
        far.sin_family = AF_INET;
        far.sin_port = htons(atoi(words[4]));
        inet_pton(AF_INET, words[3], &far.sin_addr);
        int set = -1;
        if (way == "late") {
            // as event loops do: registered before it is connected
            set_nonblocking(fd);
            set = epoll_create1(0);
            epoll_event event{};
            event.events = EPOLLOUT;
            event.data.u64 = 77;
            if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
        }
        if (connect(fd, (sockaddr *)&far, sizeof far) && errno != EINPROGRESS) fail("connect");
        if (way == "late") {
            epoll_event ready{};
            if (epoll_wait(set, &ready, 1, 5000) != 1 || ready.data.u64 != 77) fail("epoll_wait");
            expect(option(fd, SOL_SOCKET, SO_ERROR) == 0, "SO_ERROR");
            expect(!(ready.events & (EPOLLHUP | EPOLLERR)), "a hang-up");
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
        }
    }
    if (!getenv("STREAM_ASKS_LATER")) ask(fd, role == "connect" ? &far : nullptr);
    printf("connected %d\n", fd);
    fflush(stdout);
    carry(way, fd, false, bytes);
    if (way == "dup") fd = fd_of;
    if (getenv("STREAM_ASKS_LATER")) ask(fd, role == "connect" ? &far : nullptr);
    if (getenv("STREAM_ASKS_MORE")) ask_for_privileges(fd);
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length)) fail("TCP_INFO");
    printf("whole, state %d, mss %u, received %llu\n", info.tcpi_state, info.tcpi_snd_mss,
           (unsigned long long)info.tcpi_bytes_received);
    return 0;
}
