/* Delays threads at random system calls and at their start: for milliseconds often, for seconds seldom. A test that passes
 * only because all threads go on at once fails with it, also on an idle machine. `./test --delays` loads this into the tests
 * and all that they start. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static __thread uint64_t state;
static __thread int is_delaying;
static long (*real_syscall)(long, ...);

static uint64_t random_number(void) {
    if (!state) {
        struct timespec now;
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
        state = ((uint64_t)now.tv_nsec * 2654435761u ^ (uintptr_t)&state ^ (uint64_t)now.tv_sec) | 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545F4914F6CDD1Dull >> 20;
}

static void sleep_us(long us) {
    int saved = errno;
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
    errno = saved;
}

/* One of `rarity` times 512: seconds; of `rarity` times 64: up to 150 ms; of `rarity` times 4: up to 5 ms. */
static void delay(unsigned rarity) {
    if (is_delaying) return;
    is_delaying = 1;
    uint64_t number = random_number();
    if (number % (rarity * 512) == 0) sleep_us(500000 + random_number() % 2000000);
    else if (number % (rarity * 64) == 1) sleep_us(random_number() % 150000);
    else if (number % (rarity * 4) == 2) sleep_us(random_number() % 5000);
    is_delaying = 0;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t read(int fd, void *to, size_t size) { REAL(read); delay(8); return real(fd, to, size); }
ssize_t write(int fd, const void *from, size_t size) { REAL(write); delay(8); return real(fd, from, size); }
ssize_t readv(int fd, const struct iovec *to, int count) { REAL(readv); delay(4); return real(fd, to, count); }
ssize_t writev(int fd, const struct iovec *from, int count) { REAL(writev); delay(4); return real(fd, from, count); }
ssize_t send(int fd, const void *from, size_t size, int flags) { REAL(send); delay(4); return real(fd, from, size, flags); }
ssize_t recv(int fd, void *to, size_t size, int flags) { REAL(recv); delay(4); return real(fd, to, size, flags); }
ssize_t sendmsg(int fd, const struct msghdr *from, int flags) { REAL(sendmsg); delay(4); return real(fd, from, flags); }
ssize_t recvmsg(int fd, struct msghdr *to, int flags) { REAL(recvmsg); delay(4); return real(fd, to, flags); }
int poll(struct pollfd *fds, nfds_t count, int ms) { REAL(poll); int ready = real(fds, count, ms); delay(4); return ready; }
int fsync(int fd) { REAL(fsync); delay(4); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); delay(4); return real(fd); }

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    REAL(accept4);
    int accepted = real(fd, address, size, flags);
    delay(1);
    return accepted;
}

/* After the time was taken: what a thread then believes of it is old. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int result = real(clock, now);
    delay(256);
    return result;
}

/* Locks and condition variables of Rust are futexes by this function. */
long syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (!real_syscall) real_syscall = dlsym(RTLD_NEXT, "syscall");
    if (number != SYS_clock_gettime) delay(number == SYS_futex ? 8 : 4);
    long result = real_syscall(number, a, b, c, d, e, f);
    if (number == SYS_futex) delay(8);
    return result;
}

struct start { void *(*run)(void *); void *argument; };

static void *begin(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    if (random_number() % 3 == 0) sleep_us(random_number() % 100000);
    return start.run(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    REAL(pthread_create);
    struct start *start = malloc(sizeof *start);
    if (!start) return EAGAIN;
    *start = (struct start){run, argument};
    int error = real(thread, how, begin, start);
    if (error) free(start);
    delay(4);
    return error;
}
