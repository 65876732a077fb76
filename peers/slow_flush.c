/* Loaded into a server with LD_PRELOAD: every fdatasync takes two milliseconds, as on a disk across a network. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

#define FLUSH 2000000L /* nanoseconds */
#define SECOND 1000000000L

int fdatasync(int file)
{
    static int (*flush)(int);
    struct timespec end;

    if (!flush)
        flush = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += FLUSH;
    end.tv_sec += end.tv_nsec / SECOND;
    end.tv_nsec %= SECOND;
    int result = flush(file);
    int error = errno;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0) == EINTR)
        ;
    errno = error;
    return result;
}
