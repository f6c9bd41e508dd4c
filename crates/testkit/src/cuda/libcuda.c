// A driver for a machine without a GPU: the calls of libcuda that packhorse makes, done by threads.
//
// Streams are threads that do what is queued in order, each piece after a random while; memory of the device is memory of the
// host. What a real driver would let pass, or do to some other memory, ends the process here with a word: copies from memory
// that is not pinned, past the end of memory, or from and to memory that was given back. As with the real one, a process that was
// forked from one that uses the driver can't initialise it; any other call there ends that process.
//
// Told by the environment:
//   FAKE_CUDA_DEVICES=2        GPUs
//   FAKE_CUDA_JITTER=200       most microseconds before each piece of work
//   FAKE_CUDA_SEED=1           of those
//   FAKE_CUDA_FAIL=NAME:N:CODE the Nth call of NAME (from 1) gives CODE
//   FAKE_CUDA_PLANT=NAME       calls of NAME do nothing and say that all is well
//   FAKE_CUDA_FREE=BYTES       bytes that are said to be free, instead of all
//   FAKE_CUDA_KERNELS=A:B      libraries with kernels compiled for the host
//   FAKE_CUDA_REPORT=FILE      at the end: calls by name, and what was not given back
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int Status;
enum { OK = 0, INVALID = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NO_CONTEXT = 201, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600 };

static pthread_mutex_t LOCK = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t CHANGED = PTHREAD_COND_INITIALIZER;

static void die(const char* what) {
    fprintf(stderr, "fake libcuda: %s\n", what);
    fflush(NULL);
    _exit(86);
}

// Calls, by name.

static struct { const char* name; long calls; } CALLS[64];

// The process that uses the driver.
static pid_t OWNER;

static int forked(void) { return OWNER && OWNER != getpid(); }

static Status called(const char* name) {
    if (forked()) {
        if (strcmp(name, "cuInit")) die("a call in a process that was forked from one that uses the driver");
        return NOT_INITIALIZED;
    }
    pthread_mutex_lock(&LOCK);
    int at = 0;
    while (CALLS[at].name && strcmp(CALLS[at].name, name)) at++;
    CALLS[at].name = name;
    long calls = ++CALLS[at].calls;
    pthread_mutex_unlock(&LOCK);
    const char* fail = getenv("FAKE_CUDA_FAIL");
    size_t length = strlen(name);
    if (fail && !strncmp(fail, name, length) && fail[length] == ':') {
        char* end;
        if (strtol(fail + length + 1, &end, 10) == calls) return atoi(end + 1);
    }
    return OK;
}

static int planted(const char* name) {
    const char* plant = getenv("FAKE_CUDA_PLANT");
    return plant && !strcmp(plant, name);
}

#define CALLED                            \
    do {                                  \
        Status status = called(__func__); \
        if (status) return status;        \
    } while (0)

// Memory.

typedef struct Block {
    struct Block* next;
    char* at;
    size_t bytes;
    int pinned, uses;
} Block;
static Block* BLOCKS;

static Block* block_of(uint64_t address, size_t bytes) {
    for (Block* b = BLOCKS; b; b = b->next)
        if (address >= (uint64_t)b->at && address + bytes <= (uint64_t)b->at + b->bytes) return b;
    return NULL;
}

static Status take(size_t bytes, int pinned, void** at) {
    Block* b = calloc(1, sizeof *b);
    if (posix_memalign((void**)&b->at, 4096, bytes ? bytes : 1)) return OUT_OF_MEMORY;
    memset(b->at, 0xdb, bytes);
    b->bytes = bytes, b->pinned = pinned;
    pthread_mutex_lock(&LOCK);
    b->next = BLOCKS, BLOCKS = b;
    pthread_mutex_unlock(&LOCK);
    *at = b->at;
    return OK;
}

static Status give_back(uint64_t at, int pinned) {
    pthread_mutex_lock(&LOCK);
    Block** p = &BLOCKS;
    while (*p && (uint64_t)(*p)->at != at) p = &(*p)->next;
    Block* b = *p;
    if (!b || b->pinned != pinned) die("memory is given back that was never taken");
    if (b->uses) die("memory is given back that a stream uses");
    *p = b->next;
    pthread_mutex_unlock(&LOCK);
    memset(b->at, 0xee, b->bytes);
    free(b->at);
    free(b);
    return OK;
}

// Streams and events. Stream 0 is the default one.

typedef struct Event { long set, over; } Event;

typedef struct Work {
    struct Work* next;
    enum { COPY, KERNEL, CALL, MARK, WAIT, END } what;
    Block *from_block, *to_block;
    const char* from;
    char* to;
    size_t bytes;
    Event* event;
    long mark;
    size_t (*kernel)(const void*, size_t, const unsigned*, const unsigned*);
    unsigned grid[3], block[3];
    uint64_t args[64];
    void (*call)(void*);
    void* arg;
} Work;

typedef struct Stream {
    pthread_t thread;
    Work *first, *last;
    long queued, done;
    unsigned number;
    int ended, blocking, capturing;
    void* context;
} Stream;

static Stream* STREAMS[256];
static unsigned STREAM_COUNT;

static void pause_a_while(uint64_t* state) {
    const char* most = getenv("FAKE_CUDA_JITTER");
    if (!most) return;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    struct timespec t = {0, (long)((*state >> 33) % (unsigned)(atoi(most) * 1000 + 1))};
    nanosleep(&t, NULL);
}

static void* run(void* of) {
    Stream* s = of;
    const char* seed = getenv("FAKE_CUDA_SEED");
    uint64_t state = (seed ? strtoull(seed, NULL, 10) : 1) * 1000003 + s->number;
    for (int end = 0; !end;) {
        pthread_mutex_lock(&LOCK);
        while (!s->first) pthread_cond_wait(&CHANGED, &LOCK);
        Work* w = s->first;
        pthread_mutex_unlock(&LOCK);
        pause_a_while(&state);
        if (w->what == COPY) memcpy(w->to, w->from, w->bytes);
        if (w->what == KERNEL && w->kernel) w->kernel(w->args, w->bytes, w->grid, w->block);
        if (w->what == CALL) w->call(w->arg);
        pthread_mutex_lock(&LOCK);
        if (w->what == MARK && w->event->over < w->mark) w->event->over = w->mark;
        while (w->what == WAIT && w->event->over < w->mark) pthread_cond_wait(&CHANGED, &LOCK);
        if (w->from_block) w->from_block->uses--;
        if (w->to_block) w->to_block->uses--;
        end = w->what == END;
        s->first = w->next;
        s->done++;
        pthread_cond_broadcast(&CHANGED);
        pthread_mutex_unlock(&LOCK);
        free(w);
    }
    return NULL;
}

static Stream* new_stream(void) {
    pthread_mutex_lock(&LOCK);
    if (STREAM_COUNT == 256) die("too many streams");
    Stream* s = calloc(1, sizeof *s);
    s->number = STREAM_COUNT;
    STREAMS[STREAM_COUNT++] = s;
    pthread_mutex_unlock(&LOCK);
    pthread_create(&s->thread, NULL, run, s);
    return s;
}

// The default stream, 0 and 1, and that of each thread, 2.
static Stream* LEGACY;
static __thread Stream* OWN;

static void new_legacy(void) { LEGACY = new_stream(); }

static Stream* stream_of(void* handle) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if ((uintptr_t)handle > 2) return handle;
    if ((uintptr_t)handle < 2) {
        pthread_once(&once, new_legacy);
        return LEGACY;
    }
    if (!OWN) {
        OWN = new_stream();
        OWN->blocking = 1;
    }
    return OWN;
}

// With the lock held.
static Work* queue(Stream* s, int what) {
    if (s->ended) die("work for a stream that is gone");
    if (s->capturing) die("work of a batch in the capture of a graph");
    Work* w = calloc(1, sizeof *w);
    w->what = what;
    if (s->first) s->last->next = w; else s->first = w;
    s->last = w;
    s->queued++;
    pthread_cond_broadcast(&CHANGED);
    return w;
}

// An event on the default stream follows the work of all blocking streams. With the lock held.
static void join_blocking(Stream* legacy) {
    for (unsigned i = 0; i < STREAM_COUNT; i++) {
        if (!STREAMS[i]->blocking || STREAMS[i]->ended) continue;
        Work* mark = queue(STREAMS[i], MARK);
        // Never given back: both name it.
        mark->event = calloc(1, sizeof *mark->event), mark->mark = ++mark->event->set;
        Work* wait = queue(legacy, WAIT);
        wait->event = mark->event, wait->mark = mark->mark;
    }
}

// With the lock held.
static void settle(Stream* s) {
    long all = s->queued;
    while (s->done < all) pthread_cond_wait(&CHANGED, &LOCK);
}

// Contexts: each thread must have set one.

static __thread long CONTEXT;
static long RETAINED;

#define BOUND \
    do { if (!CONTEXT) return NO_CONTEXT; } while (0)

// For other libraries that pretend to be of NVIDIA's.

// How often a call was made.
long fake_cuda_calls(const char* name) {
    long calls = 0;
    pthread_mutex_lock(&LOCK);
    for (int at = 0; CALLS[at].name; at++)
        if (!strcmp(CALLS[at].name, name)) calls = CALLS[at].calls;
    pthread_mutex_unlock(&LOCK);
    return calls;
}

// Queues a call.
void fake_cuda_enqueue(void* stream, void (*call)(void*), void* arg) {
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    Work* w = queue(s, CALL);
    w->call = call, w->arg = arg;
    pthread_mutex_unlock(&LOCK);
}

// A queue of something else than the multiprocessors.
void* fake_cuda_queue(void) { return new_stream(); }

// Says that somebody begins or ends to use memory, which must be there.
void fake_cuda_use(uint64_t at, size_t bytes, int pinned, int more) {
    pthread_mutex_lock(&LOCK);
    Block* b = block_of(at, bytes);
    if (!b || b->pinned != pinned) die(pinned ? "a use of memory that is not pinned" : "a use past the end of the device's memory");
    b->uses += more;
    pthread_mutex_unlock(&LOCK);
}

// Whether this thread has set a context.
int fake_cuda_bound(void) { return CONTEXT != 0; }

// The calls.

Status cuInit(unsigned flags) { (void)flags; CALLED; OWNER = getpid(); return OK; }

Status cuDeviceGetCount(int* count) {
    CALLED;
    const char* devices = getenv("FAKE_CUDA_DEVICES");
    *count = devices ? atoi(devices) : 2;
    return OK;
}

Status cuDeviceGet(int* device, int number) { CALLED; *device = number; return OK; }
Status cuDeviceGetName(char* name, int length, int device) { CALLED; snprintf(name, length, "Fake GPU %d", device); return OK; }
Status cuDeviceGetUuid(char* uuid, int device) { CALLED; memset(uuid, device, 16); return OK; }
Status cuDeviceGetAttribute(int* value, int which, int device) { (void)device; CALLED; *value = which == 75 ? 9 : 0; return OK; }
Status cuDevicePrimaryCtxRetain(void** context, int device) { CALLED; RETAINED++; *context = (void*)(intptr_t)(device + 1); return OK; }
Status cuDevicePrimaryCtxRelease_v2(int device) { (void)device; CALLED; RETAINED--; return OK; }
Status cuCtxGetCurrent(void** context) { CALLED; *context = (void*)CONTEXT; return OK; }
static __thread long PUSHED[16];
static __thread int DEPTH;
Status cuCtxPushCurrent_v2(void* context) { CALLED; PUSHED[DEPTH++] = CONTEXT; CONTEXT = (intptr_t)context; return OK; }
Status cuCtxPopCurrent_v2(void** context) { CALLED; *context = (void*)CONTEXT; CONTEXT = PUSHED[--DEPTH]; return OK; }
Status cuCtxSetCurrent(void* context) { CALLED; CONTEXT = (intptr_t)context; return OK; }
Status cuThreadExchangeStreamCaptureMode(int* mode) { static __thread int own; CALLED; int was = own; own = *mode, *mode = was; return OK; }
Status cuCtxGetStreamPriorityRange(int* least, int* greatest) { CALLED; *least = 0, *greatest = -5; return OK; }
Status cuMemGetInfo_v2(size_t* available, size_t* all) {
    CALLED;
    const char* told = getenv("FAKE_CUDA_FREE");
    *all = (size_t)1 << 37;
    *available = told ? strtoull(told, NULL, 10) : *all;
    return OK;
}

Status cuCtxSynchronize(void) {
    CALLED;
    BOUND;
    pthread_mutex_lock(&LOCK);
    for (unsigned i = 0; i < STREAM_COUNT; i++) settle(STREAMS[i]);
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
    (void)flags, (void)priority;
    CALLED;
    BOUND;
    Stream* s = new_stream();
    s->context = (void*)CONTEXT;
    *stream = s;
    return OK;
}

Status cuStreamCreate(void** stream, unsigned flags) {
    Status status = cuStreamCreateWithPriority(stream, flags, 0);
    if (!status) ((Stream*)*stream)->blocking = !(flags & 1);
    return status;
}

Status cuStreamGetCtx(void* stream, void** context) { CALLED; *context = (uintptr_t)stream > 2 ? ((Stream*)stream)->context : (void*)CONTEXT; return OK; }

Status cuStreamDestroy_v2(void* stream) {
    CALLED;
    Stream* s = stream;
    pthread_mutex_lock(&LOCK);
    queue(s, END);
    s->ended = 1;
    pthread_mutex_unlock(&LOCK);
    pthread_join(s->thread, NULL);
    return OK;
}

// A capture takes no work: whatever is queued ends the process.
static Status capture(void* stream, int begins) {
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    s->capturing = begins;
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuStreamBeginCapture_v2(void* stream, int mode) { (void)mode; CALLED; return capture(stream, 1); }
Status cuStreamEndCapture(void* stream, void** graph) { CALLED; *graph = NULL; return capture(stream, 0); }

Status cuStreamIsCapturing(void* stream, int* status) {
    CALLED;
    BOUND;
    if (planted(__func__)) return *status = 0, OK;
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    *status = s->capturing;
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuStreamSynchronize(void* stream) {
    CALLED;
    BOUND;
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    settle(s);
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuStreamWaitEvent(void* stream, Event* event, unsigned flags) {
    (void)flags;
    CALLED;
    BOUND;
    if (planted(__func__)) return OK;
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    Work* w = queue(s, WAIT);
    w->event = event, w->mark = event->set;
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuEventCreate(Event** event, unsigned flags) { (void)flags; CALLED; BOUND; *event = calloc(1, sizeof **event); return OK; }
// Never given back: work that is queued may name it.
Status cuEventDestroy_v2(Event* event) { (void)event; CALLED; return OK; }
Status cuEventElapsedTime(float* ms, Event* from, Event* to) { (void)from, (void)to; CALLED; *ms = 1; return OK; }
Status cuEventElapsedTime_v2(float* ms, Event* from, Event* to) { return cuEventElapsedTime(ms, from, to); }

Status cuEventRecord(Event* event, void* stream) {
    CALLED;
    BOUND;
    if (planted(__func__)) return OK;
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    if (s == LEGACY) join_blocking(s);
    Work* w = queue(s, MARK);
    w->event = event, w->mark = ++event->set;
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuEventQuery(Event* event) {
    CALLED;
    BOUND;
    pthread_mutex_lock(&LOCK);
    int over = event->over >= event->set || planted(__func__);
    pthread_mutex_unlock(&LOCK);
    return over ? OK : NOT_READY;
}

Status cuEventSynchronize(Event* event) {
    CALLED;
    BOUND;
    if (planted(__func__)) return OK;
    pthread_mutex_lock(&LOCK);
    long mark = event->set;
    while (event->over < mark) pthread_cond_wait(&CHANGED, &LOCK);
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuMemHostAlloc(void** at, size_t bytes, unsigned flags) {
    CALLED;
    BOUND;
    if (flags & 4) die("pinned memory is write-combined: decoders read what they wrote");
    return take(bytes, 1, at);
}

Status cuMemFreeHost(void* at) { CALLED; return give_back((uint64_t)at, 1); }
Status cuMemAlloc_v2(uint64_t* at, size_t bytes) { CALLED; BOUND; return take(bytes, 0, (void**)at); }
Status cuMemFree_v2(uint64_t at) { CALLED; return give_back(at, 0); }

Status cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    CALLED;
    BOUND;
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    Block *source = block_of((uint64_t)from, bytes), *target = block_of(to, bytes);
    if (!source || !source->pinned) die("a copy from memory that is not pinned, or past its end");
    if (!target || target->pinned) die("a copy past the end of the device's memory");
    Work* w = queue(s, COPY);
    w->from = from, w->to = (char*)to, w->bytes = bytes, w->from_block = source, w->to_block = target;
    source->uses++, target->uses++;
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    CALLED;
    BOUND;
    Stream* s = stream_of(stream);
    pthread_mutex_lock(&LOCK);
    Block *source = block_of(from, bytes), *target = block_of(to, bytes);
    if (!source || source->pinned || !target || target->pinned) die("a copy past the end of the device's memory");
    Work* w = queue(s, COPY);
    w->from = (char*)from, w->to = (char*)to, w->bytes = bytes, w->from_block = source, w->to_block = target;
    source->uses++, target->uses++;
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
    CALLED;
    BOUND;
    memcpy((void*)to, from, bytes);
    return OK;
}

Status cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
    CALLED;
    BOUND;
    pthread_mutex_lock(&LOCK);
    if (!block_of(from, bytes)) die("a copy from past the end of the device's memory");
    pthread_mutex_unlock(&LOCK);
    memcpy(to, (void*)from, bytes);
    return OK;
}

Status cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void* stream) {
    CALLED;
    BOUND;
    cuStreamSynchronize(stream);
    memset((void*)at, value, bytes);
    return OK;
}

Status cuModuleLoadData(void** module, const void* image) {
    CALLED;
    BOUND;
    if (!strstr(image, ".version")) return 218;
    *module = (void*)1;
    return OK;
}

Status cuModuleUnload(void* module) { (void)module; CALLED; return OK; }

Status cuModuleGetFunction(void** function, void* module, const char* name) {
    (void)module;
    CALLED;
    BOUND;
    const char* libraries = getenv("FAKE_CUDA_KERNELS");
    char* list = strdup(libraries ? libraries : "");
    for (char *save, *one = strtok_r(list, ":", &save); one; one = strtok_r(NULL, ":", &save)) {
        void* library = dlopen(one, RTLD_NOW | RTLD_LOCAL);
        if (!library) die(dlerror());
        void* found = dlsym(library, name);
        if (found) {
            *function = found;
            free(list);
            return OK;
        }
    }
    free(list);
    return NOT_FOUND;
}

Status cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void* stream, void** params, void** extra) {
    (void)extra;
    CALLED;
    BOUND;
    if (shared) die("kernels have no dynamic shared memory here");
    Stream* s = stream_of(stream);
    size_t (*kernel)(const void*, size_t, const unsigned*, const unsigned*) = (size_t (*)(const void*, size_t, const unsigned*, const unsigned*))function;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    size_t bytes = kernel(NULL, 0, grid, block);
    pthread_mutex_lock(&LOCK);
    Work* w = queue(s, KERNEL);
    if (bytes > sizeof w->args) die("a kernel's parameter is too large");
    w->kernel = kernel, w->bytes = bytes;
    memcpy(w->args, params[0], bytes);
    memcpy(w->grid, grid, sizeof grid);
    memcpy(w->block, block, sizeof block);
    pthread_mutex_unlock(&LOCK);
    return OK;
}

Status cuGetErrorName(Status status, const char** text) {
    static __thread char name[32];
    snprintf(name, sizeof name, "CUDA_ERROR_%d", status);
    *text = name;
    return OK;
}

Status cuGetErrorString(Status status, const char** text) { (void)status; *text = "told by the fake driver"; return OK; }

__attribute__((destructor)) static void report(void) {
    const char* path = getenv("FAKE_CUDA_REPORT");
    FILE* file = path && !forked() ? fopen(path, "a") : NULL;
    if (!file) return;
    long pinned = 0, device = 0;
    for (Block* b = BLOCKS; b; b = b->next) *(b->pinned ? &pinned : &device) += 1;
    for (int i = 0; CALLS[i].name; i++) fprintf(file, "%s %ld\n", CALLS[i].name, CALLS[i].calls);
    fprintf(file, "left.pinned %ld\nleft.device %ld\nleft.contexts %ld\n", pinned, device, RETAINED);
    fclose(file);
}
