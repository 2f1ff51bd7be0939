// SPDX-License-Identifier: MIT
// Threads that the process should have where nobody has said how many.
//
// A container's quota counts as processors do: threads beyond it wait for the next period. Beside
// other work, threads of GNU OpenMP that wait for each other spin while those that they wait for
// are not running, and a call takes tens of times as long. With one thread more than there are
// processors the runtime lets its threads sleep instead (its throttled spin), and with as many as
// there are they spin again, which is quicker on a quiet machine. So the process looks, a few times
// a second, how often its threads have been preempted.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const int64_t millisecond = 1000000;
// Preemptions a second of processor time: some 5 on a quiet machine, hundreds beside other work,
// where the scheduler's slices are a few milliseconds long
static const int64_t crowded_rate = 100;
// Between two looks; processor time that a look needs; how long what it finds is believed
static const int64_t between = 20, needed = 10, believed = 2000;

// Choices of the user from before the process began
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int user_has_chosen, user_has_a_policy, processors, quota;

// Processors of a quota in microseconds of a period, rounded up; 0: no quota.
static int processors_of(long long microseconds, long long period)
{
    if (microseconds <= 0 || period <= 0)
        return 0;
    const long long n = (microseconds + period - 1) / period;
    return n > 1000000 ? 0 : (int)n;
}

// The smaller quota of two, where 0 is none.
static int smaller(int a, int b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

// Numbers of one line of a file; the first may be "max", which is -1.
static int read_numbers(const char *folder, const char *name, int n, long long *numbers)
{
    char path[4352];
    int found = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    char line[128], *rest = line;
    if (fgets(line, sizeof line, file)) {
        for (char *word; found < n && (word = strtok_r(rest, " \t\n", &rest)); found++)
            numbers[found] = strcmp(word, "max") == 0 ? -1 : atoll(word);
    }
    fclose(file);
    return found;
}

// Quota of a control group and of all those that it is in. A container sees its own group as the
// root, whatever the path that the host has for it.
static int quota_of_group(const char *root, char *group)
{
    int least = 0;
    for (;;) {
        char folder[4224];
        long long v2[2], period;
        if (snprintf(folder, sizeof folder, "%s%s", root, group) < (int)sizeof folder) {
            if (read_numbers(folder, "cpu.max", 2, v2) == 2)
                least = smaller(least, processors_of(v2[0], v2[1]));
            if (read_numbers(folder, "cpu.cfs_quota_us", 1, v2) == 1
                && read_numbers(folder, "cpu.cfs_period_us", 1, &period) == 1)
                least = smaller(least, processors_of(v2[0], period));
        }
        char *slash = strrchr(group, '/');
        if (!slash || group[0] == '\0')
            return least;
        *slash = '\0';
    }
}

// Processors that the control groups named in `membership`, a file such as /proc/self/cgroup, leave
// to the process by their quotas, with hierarchies below `root`; 0: as many as there are.
int gnograd_cpu_quota(const char *membership, const char *root)
{
    FILE *file = fopen(membership, "re");
    char line[4224], folder[4224];
    int least = 0;
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) { // number:controllers:/group
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        char names[256], *rest = names;
        snprintf(names, sizeof names, ",%s", controllers);
        if (controllers[0] == '\0') { // version 2
            least = smaller(least, quota_of_group(root, group));
            continue;
        }
        for (char *name; (name = strtok_r(rest, ",", &rest));) {
            if (strcmp(name, "cpu") != 0)
                continue;
            char of_cpu[4224];
            snprintf(of_cpu, sizeof of_cpu, "%s", group);
            snprintf(folder, sizeof folder, "%s/cpu", root); // a link where the mount has two
            least = smaller(least, quota_of_group(folder, of_cpu));
        }
    }
    fclose(file);
    return least;
}

static void look_once(void)
{
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0)
        processors = CPU_COUNT(&mine);
    user_has_chosen = getenv("OMP_NUM_THREADS") != NULL;
    user_has_a_policy = getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL;
    quota = gnograd_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
}

static int64_t nanoseconds(struct timeval t)
{
    return t.tv_sec * 1000 * millisecond + t.tv_usec * 1000;
}

// True if threads of this process have waited for a processor that others had.
static int is_crowded(void)
{
    static _Atomic int crowded;
    static _Atomic int64_t next;
    static int64_t used, preempted; // at the last look, by whoever has moved `next`
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    const int64_t now = t.tv_sec * 1000 * millisecond + t.tv_nsec;
    int64_t due = atomic_load_explicit(&next, memory_order_acquire);
    if (now < due || !atomic_compare_exchange_strong(&next, &due, INT64_MAX))
        return atomic_load_explicit(&crowded, memory_order_relaxed);

    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const int64_t cpu = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
    int64_t wait = between;
    int now_crowded = 0;
    if (crowded || used == 0) { // its own further thread would count: look again without it
        used = cpu;
        preempted = usage.ru_nivcsw;
    } else if (cpu - used >= needed * millisecond) {
        now_crowded = (usage.ru_nivcsw - preempted) * 1000 * millisecond > crowded_rate * (cpu - used);
        used = cpu;
        preempted = usage.ru_nivcsw;
        if (now_crowded)
            wait = believed;
    }
    atomic_store_explicit(&crowded, now_crowded, memory_order_relaxed);
    atomic_store_explicit(&next, now + wait * millisecond, memory_order_release);
    return now_crowded;
}

// Threads by default on a quiet machine; OpenMP would take `threads`.
int gnograd_steady_threads(int threads)
{
    pthread_once(&once, look_once);
    const int free = !user_has_chosen && threads == processors;
    return free && quota > 0 && quota < threads ? quota : threads;
}

// Threads by default now.
int gnograd_default_threads(int threads)
{
    const int steady = gnograd_steady_threads(threads);
    const int spins = !user_has_chosen && !user_has_a_policy && steady == processors;
    return spins && steady > 1 && is_crowded() ? steady + 1 : steady;
}
