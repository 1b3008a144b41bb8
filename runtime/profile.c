/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time per kernel: a sum per kernel, which the profile function of the API gives, and, when a path
 * was given, one event per launch, written at unload as a Chrome trace (chrome://tracing,
 * Perfetto). In the path %n stands for the model's name and %p for the process id. All memory is
 * taken at load; events beyond the last are counted and dropped.
 */
#include "runtime/escape.h"
#include "runtime/rt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_EVENTS (1u << 17)

typedef struct Sum {
	_Atomic uint64_t calls, ns, flops, bytes;
	_Atomic uint64_t counted; /* calls that had work */
} Sum;

typedef struct Event {
	uint64_t begin, ns;
	LaunchWork work; /* of a kernel with several launches: at the first one, for all of them */
	int32_t kernel, context;
} Event;

struct Profile {
	uint64_t bytes, start;
	Event *event; /* null: no trace */
	_Atomic uint32_t n_events;
	Sum sum[];
};

uint64_t rt_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int rt_profile_open(dl_model *m)
{
	const uint64_t bytes = sizeof(Profile) + sizeof(Sum) * (uint64_t)m->prog->n_kernels;

	if (!m->opt.profile && !m->opt.profile_path)
		return DL_OK;
	m->profile = rt_alloc(m, bytes);
	if (!m->profile)
		return rt_error(m, DL_NOMEM, "no memory for the profile");
	memset(m->profile, 0, bytes);
	m->profile->bytes = bytes;
	m->profile->start = rt_now();
	if (!m->opt.profile_path)
		return DL_OK;
	m->profile->event = rt_alloc(m, sizeof(Event) * MAX_EVENTS);
	if (!m->profile->event)
		return rt_error(m, DL_NOMEM, "no memory for the profile");
	return DL_OK;
}

void dl_count(dl_exec *x, int64_t flops, int64_t bytes)
{
	x->ctx->work = (LaunchWork){flops > 0 && flops != INT64_MAX ? (uint64_t)flops : 0,
				    bytes > 0 && bytes != INT64_MAX ? (uint64_t)bytes : 0};
}

LaunchWork rt_take_work(dl_context *c)
{
	const LaunchWork w = c->work;

	c->work = (LaunchWork){0};
	return w;
}

void rt_profile_add(Profile *p, int32_t kernel, int32_t context, uint64_t begin, uint64_t end,
		    LaunchWork w)
{
	Sum *sum = &p->sum[kernel];

	atomic_fetch_add_explicit(&sum->calls, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&sum->ns, end - begin, memory_order_relaxed);
	atomic_fetch_add_explicit(&sum->flops, w.flops, memory_order_relaxed);
	atomic_fetch_add_explicit(&sum->bytes, w.bytes, memory_order_relaxed);
	if (w.flops || w.bytes)
		atomic_fetch_add_explicit(&sum->counted, 1, memory_order_relaxed);
	if (p->event && atomic_load_explicit(&p->n_events, memory_order_relaxed) < MAX_EVENTS) {
		const uint32_t i = atomic_fetch_add(&p->n_events, 1);

		if (i < MAX_EVENTS)
			p->event[i] = (Event){begin - p->start, end - begin, w, kernel, context};
	}
}

static void put_json(FILE *f, const char *s)
{
	putc('"', f);
	escape_to_file(f, s, escape_json);
	putc('"', f);
}

static void expand(const dl_model *m, char *out, size_t room)
{
	const char *s = m->opt.profile_path;
	size_t n = 0;

	for (; *s && n + 1 < room; s++) {
		int k = 0;

		if (s[0] == '%' && s[1] == 'n')
			k = snprintf(out + n, room - n, "%s", m->prog->desc->name);
		else if (s[0] == '%' && s[1] == 'p')
			k = snprintf(out + n, room - n, "%d", (int)getpid());
		else
			out[n++] = *s;
		n += (size_t)k;
		s += k > 0;
	}
	out[n < room ? n : room - 1] = '\0';
}

/* Members of an object: the work W, and the rates at which it was done in NS, where both are
 * known. */
static void put_work(FILE *f, const dl_model *m, LaunchWork w, uint64_t ns)
{
	const double s = (double)ns * 1e-9;
	const double compute = m->opt.roof_flops > 0 ? (double)w.flops / m->opt.roof_flops : 0;
	const double memory = m->opt.roof_bytes > 0 ? (double)w.bytes / m->opt.roof_bytes : 0;
	const double at_roof = compute > memory ? compute : memory;

	fprintf(f, "\"flops\":%llu,\"bytes\":%llu", (unsigned long long)w.flops,
		(unsigned long long)w.bytes);
	if (!ns || (!w.flops && !w.bytes))
		return;
	fprintf(f, ",\"gflop_per_s\":%.4g,\"gb_per_s\":%.4g", (double)w.flops / s * 1e-9,
		(double)w.bytes / s * 1e-9);
	if (at_roof > 0)
		fprintf(f, ",\"percent_of_roof\":%.4g", 100 * at_roof / s);
}

static void put_event(FILE *f, const dl_model *m, const Event *e)
{
	fprintf(f,
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
		"\"dur\":%.3f,\"name\":",
		(int)getpid(), (int)e->context, (double)e->begin / 1e3, (double)e->ns / 1e3);
	put_json(f, m->prog->kernels[e->kernel]);
	if (e->work.flops || e->work.bytes) {
		const Sum *sum = &m->profile->sum[e->kernel];

		/* One launch of a kernel with several launches has no rate of its own. */
		fputs(",\"args\":{", f);
		put_work(f, m, e->work, sum->counted == sum->calls ? e->ns : 0);
		putc('}', f);
	}
	putc('}', f);
}

/* The sums over all executed kernels: rates are those of all launches together. An execution of a
 * kernel has one or several launches. */
static void put_kernels(FILE *f, const dl_model *m)
{
	const char *comma = "";

	for (int32_t i = 0; i < m->prog->n_kernels; i++) {
		const Sum *s = &m->profile->sum[i];

		if (!s->calls)
			continue;
		fprintf(f, "%s\n{\"name\":", comma);
		put_json(f, m->prog->kernels[i]);
		fprintf(f, ",\"runs\":%llu,\"calls\":%llu,\"ns\":%llu,",
			(unsigned long long)(s->counted ? s->counted : s->calls),
			(unsigned long long)s->calls, (unsigned long long)s->ns);
		put_work(f, m, (LaunchWork){s->flops, s->bytes}, s->ns);
		putc('}', f);
		comma = ",";
	}
}

static void put_trace(FILE *f, const dl_model *m)
{
	const Profile *p = m->profile;
	const uint32_t n = p->n_events < MAX_EVENTS ? p->n_events : MAX_EVENTS;
	uint64_t calls = 0;

	fprintf(f, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
	for (uint32_t i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", f);
		put_event(f, m, &p->event[i]);
	}
	for (int32_t i = 0; i < m->prog->n_kernels; i++)
		calls += p->sum[i].calls;
	fprintf(f, "\n],\"otherData\":{\"model\":");
	put_json(f, m->prog->desc->name);
	fprintf(f, ",\"hash\":");
	put_json(f, m->prog->desc->hash);
	fprintf(f, ",\"dropped\":%llu", (unsigned long long)(calls - n));
	if (m->opt.roof_flops > 0)
		fprintf(f, ",\"roof_gflop_per_s\":%.4g", m->opt.roof_flops * 1e-9);
	if (m->opt.roof_bytes > 0)
		fprintf(f, ",\"roof_gb_per_s\":%.4g", m->opt.roof_bytes * 1e-9);
	fprintf(f, ",\"kernels\":[");
	put_kernels(f, m);
	fprintf(f, "\n]}}\n");
}

/* Creates a file in the folder of PATH; TMP gets its path. -1: errno says why. Not mkostemp, whose
 * mode ignores the umask: a library cannot read the umask without changing it for other threads. */
static int open_beside(const char *path, char *tmp, size_t room)
{
	const char *slash = strrchr(path, '/');
	const int folder = slash ? (int)(slash + 1 - path) : 0;
	int fd = -1;

	for (int tries = 0; tries < 100 && fd < 0; tries++) {
		snprintf(tmp, room, "%.*s.dlcc.%06x", folder, path, (unsigned)rt_now() & 0xffffff);
		fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

/* Writes the trace to FD, and closes it. 0, or errno. */
static int put_trace_to(int fd, const dl_model *m)
{
	FILE *f = fdopen(fd, "w");
	int bad = f ? 0 : errno;

	if (!f) {
		close(fd);
		return bad;
	}
	errno = 0;
	put_trace(f, m);
	bad = ferror(f) ? errno : 0;
	return fclose(f) && !bad ? errno : bad;
}

/* Writes a temporary file and renames it, so the path always has either the old or the new
 * contents. A device, a pipe or a link, as /dev/stdout, is not replaced but written to. */
static int write_trace(dl_model *m)
{
	char path[PATH_MAX], tmp[PATH_MAX + 16];
	struct stat st;
	bool direct;
	int fd, bad;

	expand(m, path, sizeof(path));
	direct = !lstat(path, &st) && !S_ISREG(st.st_mode);
	fd = direct ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
		    : open_beside(path, tmp, sizeof(tmp));
	bad = fd < 0 ? errno : put_trace_to(fd, m);
	if (!direct && fd >= 0 && !bad && rename(tmp, path))
		bad = errno;
	if (!direct && fd >= 0 && bad)
		unlink(tmp);
	return bad ? rt_error(m, DL_IO, "%s: %s", path, strerror(bad)) : DL_OK;
}

int rt_profile_close(dl_model *m)
{
	Profile *p = m->profile;
	int rc = DL_OK;

	if (!p)
		return DL_OK;
	if (p->event) {
		rc = write_trace(m);
		rt_free(m, p->event, sizeof(Event) * MAX_EVENTS);
	}
	rt_free(m, p, p->bytes);
	m->profile = NULL;
	return rc;
}

int dl_rt_profile(dl_model *m, int32_t i, dl_profile_entry *entry)
{
	dl_profile_entry is = {0};
	int rc = rt_check_model(m, "profile");

	if (rc)
		return rc;
	if (!entry || !m->profile || i < 0 || i >= m->prog->n_kernels)
		return rt_error(m, DL_INVALID,
				!entry        ? "profile: the place for an entry is null"
				: !m->profile ? "profile: the model was loaded without a profile"
					      : "profile: there is no such entry");
	is.name = m->prog->kernels[i];
	is.calls = atomic_load(&m->profile->sum[i].calls);
	is.nanoseconds = atomic_load(&m->profile->sum[i].ns);
	is.flops = atomic_load(&m->profile->sum[i].flops);
	is.bytes = atomic_load(&m->profile->sum[i].bytes);
	return rt_give(m, "dl_profile_entry", entry, RT_UPTO(dl_profile_entry, name), &is,
		       sizeof(is));
}
