// A decoder of JPEGs for a machine without a GPU: the calls of libnvjpeg that packhorse makes, on the streams of the fake libcuda
// beside it.
//
// Nothing is decoded. What is written for a picture is a pattern that every byte of its JPEG has a part in, read when the GPU gets
// to it: who changes the bytes too early, or reads the pixels too early, finds other ones. As the real library does, the backend
// for hardware writes pictures when it is called, ahead of what is queued on the stream.
//
// Ends the process with a word where the real library would do something to some other memory: states that are used while they
// decode, handles that two threads use at once, pictures from memory that is not pinned or to memory that is not the device's, calls
// without a context.
//
// Told by the environment:
//   FAKE_NVJPEG_ENGINES=0          there is no hardware
//   FAKE_NVJPEG_STRICT=0           the flag for strictness is not known
//   FAKE_NVJPEG_FAIL=NAME:N:STATUS the Nth call of NAME (from 1) gives STATUS, and with N = 0 each call
//   FAKE_NVJPEG_BUSY=1             states may be used while they decode
//   FAKE_NVJPEG_SIZE=1             headers are understood differently: one pixel wider
//   FAKE_CUDA_REPORT=FILE          at the end: calls by name, and what was not given back
// A JPEG in which the word BROKEN stands can't be decoded, which is found when the pictures before it are queued. The stream does
// not wait for those, then.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Status;
enum { OK, NOT_INITIALIZED, INVALID, BAD, UNSUPPORTED, NO_MEMORY, FAILED, ARCH_MISMATCH };
enum { HYBRID = 2, HARDWARE = 3, RGBI = 5 };

static void die(const char* what) {
    fprintf(stderr, "fake libnvjpeg: %s\n", what);
    fflush(NULL);
    _exit(87);
}

static pthread_mutex_t LOCK = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t CHANGED = PTHREAD_COND_INITIALIZER;

// The driver.

static void (*enqueue)(void*, void (*)(void*), void*);
static void* (*new_queue)(void);
static void (*use)(uint64_t, size_t, int, int);
static int (*bound)(void);

static void find_driver(void) {
    void* driver = dlopen("libcuda.so", RTLD_NOW);
    if (!driver) die("there is no fake libcuda");
    enqueue = (void (*)(void*, void (*)(void*), void*))dlsym(driver, "fake_cuda_enqueue");
    new_queue = (void* (*)(void))dlsym(driver, "fake_cuda_queue");
    use = (void (*)(uint64_t, size_t, int, int))dlsym(driver, "fake_cuda_use");
    bound = (int (*)(void))dlsym(driver, "fake_cuda_bound");
    if (!enqueue || !new_queue || !use || !bound) die("the driver is not the fake one");
}

static void driver(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_driver);
    if (!bound()) die("a call without a context");
}

// Calls, by name.

static struct { const char* name; long calls; } CALLS[32];
static long LEFT;

static Status called(const char* name) {
    pthread_mutex_lock(&LOCK);
    int at = 0;
    while (CALLS[at].name && strcmp(CALLS[at].name, name)) at++;
    CALLS[at].name = name;
    long calls = ++CALLS[at].calls;
    pthread_mutex_unlock(&LOCK);
    const char* fail = getenv("FAKE_NVJPEG_FAIL");
    size_t length = strlen(name);
    if (fail && !strncmp(fail, name, length) && fail[length] == ':') {
        char* end;
        long wanted = strtol(fail + length + 1, &end, 10);
        if (wanted == calls || wanted == 0) return atoi(end + 1);
    }
    return OK;
}

#define CALLED                            \
    do {                                  \
        Status status = called(__func__); \
        if (status) return status;        \
    } while (0)

static int is(const char* variable, const char* value) {
    const char* is = getenv(variable);
    return is && !strcmp(is, value);
}

// Headers.

typedef struct {
    unsigned width, height, process, parts, scans;
} Header;

static int parse(const unsigned char* data, size_t length, Header* header) {
    memset(header, 0, sizeof *header);
    if (length < 4 || data[0] != 0xff || data[1] != 0xd8) return 0;
    for (size_t at = 2; at + 4 <= length;) {
        if (data[at] != 0xff || data[at + 1] == 0 || data[at + 1] == 0xff) {
            at++;
            continue;
        }
        unsigned marker = data[at + 1], bytes = data[at + 2] << 8 | data[at + 3];
        if (marker >= 0xd0 && marker <= 0xd8) {
            at += 2;
            continue;
        }
        if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
            if (at + 10 > length) return 0;
            header->process = marker & 15;
            header->height = data[at + 5] << 8 | data[at + 6];
            header->width = data[at + 7] << 8 | data[at + 8];
            header->parts = data[at + 9];
        }
        header->scans += marker == 0xda;
        at += 2 + bytes;
    }
    header->width += is("FAKE_NVJPEG_SIZE", "1");
    return header->width && header->height && header->scans;
}

// Handles.

typedef struct { int backend; long states, parsers; void* queue; } Library;
typedef struct { Library* library; int batch, busy, inside; } State;
typedef struct { Library* library; Header header; int inside; } Parsed;
typedef struct { unsigned char* channel[4]; size_t pitch[4]; } Image;

// A handle is used by one thread at a time. A call takes a while, so that others would meet it.
static void enter(int* inside) {
    if (__atomic_exchange_n(inside, 1, __ATOMIC_SEQ_CST)) die("a handle is used by two threads at once");
    usleep(20);
}

static Status leave(int* inside, Status status) {
    __atomic_store_n(inside, 0, __ATOMIC_SEQ_CST);
    return status;
}

static void* made(size_t bytes) {
    __atomic_add_fetch(&LEFT, 1, __ATOMIC_SEQ_CST);
    return calloc(1, bytes);
}

static Status gone(void* handle) {
    __atomic_sub_fetch(&LEFT, 1, __ATOMIC_SEQ_CST);
    free(handle);
    return OK;
}

Status nvjpegGetProperty(int part, int* value) { CALLED; *value = part == 0 ? 12 : 0; return OK; }

Status nvjpegCreateEx(int backend, void* device, void* pinned, unsigned flags, Library** library) {
    CALLED;
    driver();
    if (device || pinned) die("there are no allocators here");
    if (flags && is("FAKE_NVJPEG_STRICT", "0")) return INVALID;
    if (backend != HARDWARE && backend != HYBRID) return INVALID;
    if (backend == HARDWARE && is("FAKE_NVJPEG_ENGINES", "0")) return ARCH_MISMATCH;
    *library = made(sizeof **library);
    (*library)->backend = backend;
    (*library)->queue = backend == HARDWARE ? new_queue() : NULL;
    return OK;
}

Status nvjpegDestroy(Library* library) {
    CALLED;
    driver();
    if (library->states || library->parsers) die("a library handle goes before its states and parsers");
    return gone(library);
}

Status nvjpegJpegStateCreate(Library* library, State** state) {
    CALLED;
    driver();
    *state = made(sizeof **state);
    (*state)->library = library;
    __atomic_add_fetch(&library->states, 1, __ATOMIC_SEQ_CST);
    return OK;
}

static void must_be_idle(State* state) {
    if (__atomic_load_n(&state->busy, __ATOMIC_SEQ_CST) && !is("FAKE_NVJPEG_BUSY", "1")) die("a state is used while it decodes");
}

Status nvjpegJpegStateDestroy(State* state) {
    CALLED;
    driver();
    must_be_idle(state);
    __atomic_sub_fetch(&state->library->states, 1, __ATOMIC_SEQ_CST);
    return gone(state);
}

Status nvjpegJpegStreamCreate(Library* library, Parsed** parsed) {
    CALLED;
    driver();
    *parsed = made(sizeof **parsed);
    (*parsed)->library = library;
    __atomic_add_fetch(&library->parsers, 1, __ATOMIC_SEQ_CST);
    return OK;
}

Status nvjpegJpegStreamDestroy(Parsed* parsed) {
    CALLED;
    driver();
    __atomic_sub_fetch(&parsed->library->parsers, 1, __ATOMIC_SEQ_CST);
    return gone(parsed);
}

Status nvjpegJpegStreamParse(Library* library, const unsigned char* data, size_t length, int metadata, int stream, Parsed* parsed) {
    (void)library, (void)metadata, (void)stream;
    CALLED;
    driver();
    enter(&parsed->inside);
    return leave(&parsed->inside, parse(data, length, &parsed->header) ? OK : BAD);
}

Status nvjpegJpegStreamGetFrameDimensions(Parsed* parsed, unsigned* width, unsigned* height) {
    CALLED;
    driver();
    *width = parsed->header.width, *height = parsed->header.height;
    return OK;
}

Status nvjpegDecodeBatchedSupported(Library* library, Parsed* parsed, int* refused) {
    CALLED;
    driver();
    Header* h = &parsed->header;
    *refused = library->backend == HARDWARE ? h->process != 0 || h->scans != 1 : h->process > 2;
    return OK;
}

Status nvjpegDecodeBatchedInitialize(Library* library, State* state, int batch, int threads, int output) {
    (void)threads;
    CALLED;
    driver();
    must_be_idle(state);
    if (state->library != library) die("a state of another library handle");
    if (batch < 1 || output != RGBI) return INVALID;
    state->batch = batch;
    return OK;
}

Status nvjpegDecodeBatchedPreAllocate(Library* library, State* state, int batch, int width, int height, int chroma, int output) {
    CALLED;
    driver();
    must_be_idle(state);
    if (state->library != library) die("a state of another library handle");
    return batch < state->batch || width < 1 || height < 1 || chroma || output != RGBI ? INVALID : OK;
}

// A picture that will be decoded.
typedef struct {
    State* state;
    const unsigned char* data;
    size_t length, pitch;
    unsigned char* to;
    Header header;
    int done;
} Picture;

static size_t size_of(const Picture* p) { return p->pitch * (p->header.height - 1) + 3 * (size_t)p->header.width; }

static void decode(void* of) {
    Picture* p = of;
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < p->length; i++) sum = (sum ^ p->data[i]) * 0x100000001b3u;
    for (unsigned y = 0; y < p->header.height; y++)
        for (unsigned x = 0; x < p->header.width; x++)
            for (unsigned c = 0; c < 3; c++) p->to[p->pitch * y + 3 * x + c] = (unsigned char)((sum >> 8 * (c + 3)) + 3 * x + 7 * y);
    use((uint64_t)p->data, p->length, 1, -1);
    use((uint64_t)p->to, size_of(p), 0, -1);
    pthread_mutex_lock(&LOCK);
    p->done = 1;
    __atomic_sub_fetch(&p->state->busy, 1, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(&CHANGED);
    pthread_mutex_unlock(&LOCK);
}

static void wait_for(void* of) {
    Picture* p = of;
    pthread_mutex_lock(&LOCK);
    while (!p->done) pthread_cond_wait(&CHANGED, &LOCK);
    pthread_mutex_unlock(&LOCK);
}

Status nvjpegDecodeBatched(Library* library, State* state, const unsigned char* const* data, const size_t* lengths, Image* images, void* stream) {
    CALLED;
    driver();
    must_be_idle(state);
    enter(&state->inside);
    if (!state->batch) return leave(&state->inside, INVALID);
    Picture* last = NULL;
    Status status = OK;
    for (int i = 0; i < state->batch; i++) {
        Picture* p = calloc(1, sizeof *p);
        if (memmem(data[i], lengths[i], "BROKEN", 6) || !parse(data[i], lengths[i], &p->header)) {
            status = BAD;
            break;
        }
        p->state = state, p->data = data[i], p->length = lengths[i], p->to = images[i].channel[0], p->pitch = images[i].pitch[0];
        if (p->pitch < 3 * (size_t)p->header.width || images[i].channel[1]) die("a picture whose lines are too short");
        use((uint64_t)p->data, p->length, 1, 1);
        use((uint64_t)p->to, size_of(p), 0, 1);
        __atomic_add_fetch(&state->busy, 1, __ATOMIC_SEQ_CST);
        enqueue(library->backend == HARDWARE ? library->queue : stream, decode, p);
        last = p;
    }
    if (last && !status && library->backend == HARDWARE) enqueue(stream, wait_for, last);
    if (status) state->batch = 0;
    return leave(&state->inside, status);
}

__attribute__((destructor)) static void report(void) {
    const char* path = getenv("FAKE_CUDA_REPORT");
    FILE* file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    for (int i = 0; CALLS[i].name; i++) fprintf(file, "%s %ld\n", CALLS[i].name, CALLS[i].calls);
    fprintf(file, "left.nvjpeg %ld\n", LEFT);
    fclose(file);
}
