/* The least that a reader of tars can do, as a yardstick: long reads into a window, headers, a copy of every payload.
   `readtar FILE...` prints the seconds by the clock and of the processor, and the payloads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 512, LONG_READ = 1 << 20 };

struct window {
    int file;
    char *bytes;
    size_t capacity, start, end;
};

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Makes so many bytes available; 0 at the end of the file. */
static int fill(struct window *w, size_t wanted) {
    while (w->end - w->start < wanted) {
        memmove(w->bytes, w->bytes + w->start, w->end - w->start);
        w->end -= w->start;
        w->start = 0;
        if (w->end + LONG_READ > w->capacity) {
            w->capacity = 2 * (w->end + LONG_READ);
            w->bytes = realloc(w->bytes, w->capacity);
        }
        ssize_t found = read(w->file, w->bytes + w->end, LONG_READ);
        if (found <= 0) {
            return 0;
        }
        w->end += (size_t)found;
    }
    return 1;
}

static size_t payloads(const char *path, struct window *w) {
    size_t count = 0;
    w->file = open(path, O_RDONLY);
    w->start = w->end = 0;
    while (w->file >= 0 && fill(w, BLOCK) && w->bytes[w->start] != 0) {
        const char *header = w->bytes + w->start;
        const size_t size = strtoul(header + 124, NULL, 8);
        const char type = header[156];
        const size_t member = BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
        if (!fill(w, member)) {
            break;
        }
        if (type == '0' || type == 0) {
            char *volatile payload = malloc(size);
            memcpy(payload, w->bytes + w->start + BLOCK, size);
            free(payload);
            count++;
        }
        w->start += member;
    }
    close(w->file);
    return count;
}

int main(int arguments, char **names) {
    struct window w = {.capacity = 0};
    const double start = now(CLOCK_MONOTONIC), processor = now(CLOCK_PROCESS_CPUTIME_ID);
    size_t count = 0;
    for (int i = 1; i < arguments; i++) {
        count += payloads(names[i], &w);
    }
    printf("%.6f %.6f %zu\n", now(CLOCK_MONOTONIC) - start, now(CLOCK_PROCESS_CPUTIME_ID) - processor, count);
    return count == 0;
}
