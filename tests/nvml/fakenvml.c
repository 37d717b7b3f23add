/*
 * A driver library with NVML's binary interface, for tests of the true binding.
 *
 * Everything is steered through the folder named by FAKENVML_DIR:
 *
 *   state     text, read again whenever the file changed:
 *               driver VERSION                  the kernel's side; "none": not loaded
 *               gpu INDEX UUID MINOR BUS MEMORY MIG RECOVERY STATUS NAME...
 *                                               MIG and RECOVERY -1: not supported;
 *                                               STATUS ok | lost
 *               fail FUNCTION CODE INDEX        INDEX -1: for every GPU, or for none
 *               delay FUNCTION MILLISECONDS
 *   events    a FIFO of lines "UUID TYPE DATA"
 *   counters  calls by function and thread, in records of struct counter
 *
 * FAKE_DRIVER is the version that this build belongs to; another one in the kernel is the
 * mismatch that follows a driver upgrade.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef FAKE_DRIVER
#define FAKE_DRIVER "580.95.05"
#endif

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15,
    LIB_RM_VERSION_MISMATCH = 18, UNKNOWN = 999
};

enum { MAX_GPUS = 16, MAX_RULES = 32, MAX_COUNTERS = 1024, FIELD_RECOVERY = 230, ANY = -1 };

struct gpu {
    int index, minor, mig, recovery, lost;
    unsigned long memory;
    char uuid[96], bus[32], name[96];
};

struct rule { char function[64]; int value, index; };

struct state {
    char driver[64];
    struct gpu gpus[MAX_GPUS];
    int gpu_count;
    struct rule fails[MAX_RULES], delays[MAX_RULES];
    int fail_count, delay_count;
};

struct counter { char name[112]; uint64_t thread, calls; };

/* A handle outlives the GPU that it was made for, as the library's own do. */
struct handle { char uuid[96]; int index; };

struct event_set { unsigned long long types[MAX_GPUS]; };

struct pci_info {
    char legacy[16];
    unsigned int domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct memory { unsigned long long total, free, used; };

struct field_value {
    unsigned int field, scope;
    long long timestamp, latency;
    unsigned int type, result;
    union { unsigned int ui; unsigned long long ull; double d; } value;
};

struct event_data {
    struct handle *device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state state;
static struct timespec state_time;
static ino_t state_inode;
static int opened;
static struct handle handles[MAX_GPUS], nobody = {"", -1};
static int handle_count;
static struct counter *counters;
static int event_fd = -1;

static void path_of(char *path, const char *name)
{
    const char *folder = getenv("FAKENVML_DIR");
    snprintf(path, PATH_MAX, "%s/%s", folder ? folder : ".", name);
}

static void parse(char *line, struct state *into)
{
    struct gpu *gpu = &into->gpus[into->gpu_count];
    struct rule *fail = &into->fails[into->fail_count];
    struct rule *delay = &into->delays[into->delay_count];
    char status[16];
    if (sscanf(line, "driver %63s", into->driver) == 1)
        return;
    if (into->gpu_count < MAX_GPUS &&
        sscanf(line, "gpu %d %95s %d %31s %lu %d %d %15s %95[^\n]", &gpu->index, gpu->uuid,
               &gpu->minor, gpu->bus, &gpu->memory, &gpu->mig, &gpu->recovery, status,
               gpu->name) == 9) {
        gpu->lost = strcmp(status, "lost") == 0;
        into->gpu_count++;
    } else if (into->fail_count < MAX_RULES &&
               sscanf(line, "fail %63s %d %d", fail->function, &fail->value, &fail->index) == 3) {
        into->fail_count++;
    } else if (into->delay_count < MAX_RULES &&
               sscanf(line, "delay %63s %d", delay->function, &delay->value) == 2) {
        into->delay_count++;
    }
}

static void refresh(void)
{
    char path[PATH_MAX], line[512];
    struct stat status;
    path_of(path, "state");
    if (stat(path, &status) != 0)
        return;
    if (status.st_ino == state_inode && status.st_mtim.tv_sec == state_time.tv_sec &&
        status.st_mtim.tv_nsec == state_time.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    memset(&state, 0, sizeof state);
    while (fgets(line, sizeof line, file))
        parse(line, &state);
    fclose(file);
    state_inode = status.st_ino;
    state_time = status.st_mtim;
}

static void map_counters(void)
{
    char path[PATH_MAX];
    size_t size = MAX_COUNTERS * sizeof *counters;
    path_of(path, "counters");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (ftruncate(fd, (off_t)size) == 0) {
        void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        counters = mapped == MAP_FAILED ? NULL : mapped;
    }
    close(fd);
}

static void count(const char *function, const char *detail)
{
    char name[sizeof counters->name];
    uint64_t thread = (uint64_t)syscall(SYS_gettid);
    if (!counters)
        map_counters();
    if (!counters)
        return;
    snprintf(name, sizeof name, "%s%s%s", function, *detail ? ":" : "", detail);
    for (int i = 0; i < MAX_COUNTERS; i++) {
        if (!counters[i].calls) {
            strcpy(counters[i].name, name);
            counters[i].thread = thread;
        }
        if (counters[i].thread == thread && strcmp(counters[i].name, name) == 0) {
            counters[i].calls++;
            return;
        }
    }
}

static int failure(const char *function, int index)
{
    for (int i = 0; i < state.fail_count; i++) {
        struct rule *rule = &state.fails[i];
        if (strcmp(rule->function, function) == 0 && (rule->index == ANY || rule->index == index))
            return rule->value;
    }
    return SUCCESS;
}

static int delay(const char *function)
{
    for (int i = 0; i < state.delay_count; i++)
        if (strcmp(state.delays[i].function, function) == 0)
            return state.delays[i].value;
    return 0;
}

static void take_time(const char *function)
{
    /* In small steps: a test that lifts the delay lets the call go on. */
    for (int spent = 0;; spent += 10) {
        pthread_mutex_lock(&lock);
        refresh();
        int wanted = delay(function);
        pthread_mutex_unlock(&lock);
        if (spent >= wanted)
            return;
        usleep(10000);
    }
}

/* Everything that each function does first; needs no lock and leaves none. */
static int enter(const char *function, int index, const char *detail)
{
    pthread_mutex_lock(&lock);
    count(function, detail);
    pthread_mutex_unlock(&lock);
    take_time(function);
    pthread_mutex_lock(&lock);
    int result = failure(function, index);
    if (result == SUCCESS && !opened)
        result = UNINITIALIZED;
    if (result == SUCCESS && strcmp(state.driver, "none") == 0)
        result = DRIVER_NOT_LOADED;
    if (result == SUCCESS && strcmp(state.driver, FAKE_DRIVER) != 0)
        result = LIB_RM_VERSION_MISMATCH;
    pthread_mutex_unlock(&lock);
    return result;
}

static int look_up(const char *uuid, struct gpu *gpu)
{
    pthread_mutex_lock(&lock);
    int result = GPU_IS_LOST;
    for (int i = 0; i < state.gpu_count; i++)
        if (strcmp(state.gpus[i].uuid, uuid) == 0 && !state.gpus[i].lost) {
            *gpu = state.gpus[i];
            result = SUCCESS;
        }
    pthread_mutex_unlock(&lock);
    return result;
}

/* As enter, for a function of one GPU; fills in what the state says of it. */
static int enter_gpu(const char *function, struct handle *handle, struct gpu *gpu)
{
    if (!handle)
        return INVALID_ARGUMENT;
    int result = enter(function, handle->index, "");
    return result == SUCCESS ? look_up(handle->uuid, gpu) : result;
}

static int copy(char *into, unsigned int size, const char *text)
{
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(into, text);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    count("nvmlInitWithFlags", "");
    pthread_mutex_unlock(&lock);
    take_time("nvmlInitWithFlags");
    pthread_mutex_lock(&lock);
    int result = failure("nvmlInitWithFlags", ANY);
    if (result == SUCCESS && (!*state.driver || strcmp(state.driver, "none") == 0))
        result = DRIVER_NOT_LOADED;
    else if (result == SUCCESS && strcmp(state.driver, FAKE_DRIVER) != 0)
        result = LIB_RM_VERSION_MISMATCH;
    if (result == SUCCESS && opened++ == 0) {
        /* What is plugged in later shows to the next session only. */
        handle_count = state.gpu_count;
        for (int i = 0; i < handle_count; i++) {
            handles[i].index = i;
            strcpy(handles[i].uuid, state.gpus[i].uuid);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void)
{
    int result = enter("nvmlShutdown", ANY, "");
    pthread_mutex_lock(&lock);
    if (opened > 0)
        opened--;
    pthread_mutex_unlock(&lock);
    return result;
}

const char *nvmlErrorString(int result)
{
    (void)result;
    return "an error of the test's library";
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    int result = enter("nvmlSystemGetDriverVersion", ANY, "");
    return result == SUCCESS ? copy(version, length, FAKE_DRIVER) : result;
}

int nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    int result = enter("nvmlSystemGetNVMLVersion", ANY, "");
    return result == SUCCESS ? copy(version, length, "13." FAKE_DRIVER) : result;
}

int nvmlDeviceGetCount_v2(unsigned int *number)
{
    int result = enter("nvmlDeviceGetCount_v2", ANY, "");
    *number = (unsigned int)handle_count;
    return result;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct handle **handle)
{
    struct gpu gpu;
    int result = enter("nvmlDeviceGetHandleByIndex_v2", (int)index, "");
    if (result != SUCCESS)
        return result;
    if (index >= (unsigned int)handle_count)
        return INVALID_ARGUMENT;
    *handle = &handles[index];
    return look_up(handles[index].uuid, &gpu);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct handle **handle)
{
    struct gpu gpu;
    int result = enter("nvmlDeviceGetHandleByUUID", ANY, "");
    if (result != SUCCESS)
        return result;
    for (int i = 0; i < handle_count; i++)
        if (strcmp(handles[i].uuid, uuid) == 0) {
            *handle = &handles[i];
            result = failure("nvmlDeviceGetHandleByUUID", i);
            return result == SUCCESS ? look_up(uuid, &gpu) : result;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetName(struct handle *handle, char *name, unsigned int length)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetName", handle, &gpu);
    return result == SUCCESS ? copy(name, length, gpu.name) : result;
}

int nvmlDeviceGetUUID(struct handle *handle, char *uuid, unsigned int length)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetUUID", handle, &gpu);
    return result == SUCCESS ? copy(uuid, length, gpu.uuid) : result;
}

int nvmlDeviceGetMinorNumber(struct handle *handle, unsigned int *minor)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetMinorNumber", handle, &gpu);
    if (result == SUCCESS)
        *minor = (unsigned int)gpu.minor;
    return result;
}

int nvmlDeviceGetIndex(struct handle *handle, unsigned int *index)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetIndex", handle, &gpu);
    *index = (unsigned int)handle->index;
    return result;
}

int nvmlDeviceGetPciInfo_v3(struct handle *handle, struct pci_info *info)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetPciInfo_v3", handle, &gpu);
    if (result != SUCCESS)
        return result;
    memset(info, 0, sizeof *info);
    strcpy(info->bus_id, gpu.bus);
    if (sscanf(gpu.bus, "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3)
        return UNKNOWN;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct handle *handle, struct memory *memory)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetMemoryInfo", handle, &gpu);
    if (result != SUCCESS)
        return result;
    memory->total = (unsigned long long)gpu.memory << 20;
    memory->used = 0;
    memory->free = memory->total;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(struct handle *handle, unsigned int *current, unsigned int *pending)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetMigMode", handle, &gpu);
    if (result != SUCCESS)
        return result;
    if (gpu.mig < 0)
        return NOT_SUPPORTED;
    *current = *pending = (unsigned int)gpu.mig;
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(struct handle *handle, int number, struct field_value *values)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetFieldValues", handle, &gpu);
    for (int i = 0; result == SUCCESS && i < number; i++) {
        int known = values[i].field == FIELD_RECOVERY && gpu.recovery >= 0;
        values[i].result = known ? SUCCESS : NOT_SUPPORTED;
        values[i].type = 1;
        values[i].value.ui = known ? (unsigned int)gpu.recovery : 0;
    }
    return result;
}

/* 18 links to switches on HBM3 boards, 12 to the neighbour on NVL pairs; the last is down. */
static int links_of(const struct gpu *gpu)
{
    return strstr(gpu->name, "HBM3") ? 18 : strstr(gpu->name, "NVL") ? 12 : 0;
}

static int enter_link(const char *function, struct handle *handle, unsigned int link,
                      struct gpu *gpu)
{
    int result = enter_gpu(function, handle, gpu);
    if (result == SUCCESS && !links_of(gpu))
        result = NOT_SUPPORTED;
    if (result == SUCCESS && link >= (unsigned int)links_of(gpu))
        result = INVALID_ARGUMENT;
    return result;
}

int nvmlDeviceGetNvLinkState(struct handle *handle, unsigned int link, unsigned int *active)
{
    struct gpu gpu;
    int result = enter_link("nvmlDeviceGetNvLinkState", handle, link, &gpu);
    if (result == SUCCESS)
        *active = (int)link < links_of(&gpu) - 1;
    return result;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct handle *handle, unsigned int link,
                                        unsigned int *type)
{
    struct gpu gpu;
    int result = enter_link("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, &gpu);
    if (result == SUCCESS)
        *type = strstr(gpu.name, "HBM3") ? 2 : 0;
    return result;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct handle *handle, unsigned int link,
                                        struct pci_info *info)
{
    struct gpu gpu;
    int result = enter_link("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, &gpu);
    if (result != SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    const char *bus = state.gpus[gpu.index ^ 1].bus;
    memset(info, 0, sizeof *info);
    if (sscanf(bus, "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3)
        result = UNKNOWN;
    pthread_mutex_unlock(&lock);
    return result;
}

int nvmlEventSetCreate(struct event_set **set)
{
    int result = enter("nvmlEventSetCreate", ANY, "");
    if (result == SUCCESS)
        *set = calloc(1, sizeof **set);
    return result;
}

int nvmlDeviceGetSupportedEventTypes(struct handle *handle, unsigned long long *types)
{
    struct gpu gpu;
    int result = enter_gpu("nvmlDeviceGetSupportedEventTypes", handle, &gpu);
    *types = 0x1 | 0x2 | 0x8 | 0x4000 | 0x8000;
    return result;
}

int nvmlDeviceRegisterEvents(struct handle *handle, unsigned long long types,
                             struct event_set *set)
{
    struct gpu gpu;
    pthread_mutex_lock(&lock);
    count("registered", handle->uuid);
    pthread_mutex_unlock(&lock);
    int result = enter_gpu("nvmlDeviceRegisterEvents", handle, &gpu);
    if (result == SUCCESS)
        set->types[handle->index] |= types;
    return result;
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int next_line(char *line, size_t size, long until)
{
    /* A writer's line is short enough to arrive whole; it is taken byte by byte so that
     * the lines behind it stay in the FIFO for other waiters. */
    size_t length = 0;
    while (length < size - 1) {
        long left = until - now();
        struct pollfd entry = {event_fd, POLLIN, 0};
        if (poll(&entry, 1, left > 0 ? (int)left : 0) <= 0)
            return 0;
        if (read(event_fd, line + length, 1) != 1)
            continue;
        if (line[length] == '\n') {
            line[length] = 0;
            return 1;
        }
        length++;
    }
    return 0;
}

static int fill(struct event_data *data, const char *line, struct event_set *set)
{
    char uuid[96];
    if (sscanf(line, "%95s %llx %llu", uuid, &data->type, &data->data) != 3)
        return 0;
    data->gpu_instance = data->compute_instance = 0xffffffff;
    data->device = &nobody;
    if (strcmp(uuid, "-") == 0)
        return 1;
    for (int i = 0; i < handle_count; i++)
        if (strcmp(handles[i].uuid, uuid) == 0 && set->types[i] & data->type) {
            data->device = &handles[i];
            return 1;
        }
    return 0;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned int milliseconds)
{
    char line[256], path[PATH_MAX];
    int result = enter("nvmlEventSetWait_v2", ANY, "");
    if (result != SUCCESS)
        return result;
    if (event_fd < 0) {
        path_of(path, "events");
        if (mkfifo(path, 0600) != 0 && errno != EEXIST)
            return UNKNOWN;
        event_fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    }
    for (long until = now() + (long)milliseconds; next_line(line, sizeof line, until);)
        if (fill(data, line, set))
            return SUCCESS;
    return TIMEOUT;
}

int nvmlEventSetFree(struct event_set *set)
{
    int result = enter("nvmlEventSetFree", ANY, "");
    free(set);
    return result;
}
