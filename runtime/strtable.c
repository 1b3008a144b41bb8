/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of strings (runtime/strtable.h): entries by id, a hash table with linear probing over
 * them, and the bytes of strings that are not constants.
 *
 * Entries are in segments that double in size and never move, so a thread reads an entry without
 * the lock: it got the id from the thread that made the entry, either under the lock or from an
 * earlier kernel. Strings are removed in the reverse order of their insertion, so linear probing
 * needs no marks of removed entries.
 *
 * Strings may come from the senders of requests to the application. Their hash has a key of random
 * bytes, so the time for n strings is linear in n and in their bytes. No result depends on the key:
 * ids are given in the order of insertion, and the hash table is never walked.
 */
#define DLRT_GENERATED 1
#include "runtime/strtable.h"
#include "runtime/siphash.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/random.h>
#include <sys/syscall.h>
#endif

typedef struct StringEntry {
	dl_str s;
	uint64_t hash;
} StringEntry;

/* A block of bytes, which follow it. */
typedef struct StringChunk {
	struct StringChunk *next;
	uint64_t room, used;
} StringChunk;

enum { SEGMENTS = 48, FIRST_SEGMENT = 64, CHUNK_BYTES = 4096 };

struct dl_strings {
	StringsMemory memory;
	pthread_mutex_t lock;
	StringEntry *segment[SEGMENTS]; /* segment k has FIRST_SEGMENT << k entries */
	_Atomic int64_t n;
	int64_t constants;
	uint64_t generation;
	int64_t *slot; /* id + 1, or 0 */
	uint64_t nslots;
	SipKey key; /* secret, so that nobody can choose strings that all belong in one slot */
	/* the bytes of this run's strings, and of the run's before; `at` is where the next goes */
	StringChunk *chunk[2], *at;
	int now;
	StringsKept *_Atomic kept;
	_Atomic int status;
	int64_t refused; /* with status DL_RUNTIME */
	const char *why;
};

/* ---- Memory ---- */

static void *malloc_aligned(void *user, uint64_t bytes, uint64_t align)
{
	(void)user;
	return bytes > SIZE_MAX - align ? NULL
					: aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void malloc_free(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

void *strings_alloc(dl_strings *t, uint64_t bytes)
{
	void *p = t->memory.alloc(t->memory.user, bytes ? bytes : 1, 64);

	if (!p)
		strings_fail(t, DL_NOMEM, 0, NULL);
	return p;
}

void strings_release(dl_strings *t, void *p, uint64_t bytes)
{
	if (p)
		t->memory.free(t->memory.user, p, bytes ? bytes : 1);
}

/* Room for N bytes that remain in place until the run after the next one begins. */
static char *new_bytes(dl_strings *t, uint64_t n)
{
	StringChunk *c;
	uint64_t room = n > CHUNK_BYTES ? n : CHUNK_BYTES;

	while (t->at && n > t->at->room - t->at->used && t->at->next) {
		t->at = t->at->next;
		t->at->used = 0;
	}
	if (!t->at || n > t->at->room - t->at->used) {
		if (t->at && room < t->at->room * 2)
			room = t->at->room * 2;
		if (room > UINT64_MAX / 4)
			return NULL;
		c = strings_alloc(t, sizeof(*c) + room);
		if (!c)
			return NULL;
		*c = (StringChunk){NULL, room, 0};
		if (t->at)
			t->at->next = c;
		else
			t->chunk[t->now] = c;
		t->at = c;
	}
	t->at->used += n;
	return (char *)(t->at + 1) + t->at->used - n;
}

/* ---- Entries ---- */

static StringEntry *entry(const dl_strings *t, int64_t id)
{
	const uint64_t v = (uint64_t)id / FIRST_SEGMENT + 1;
	const int k = 63 - __builtin_clzll(v);

	return &t->segment[k][(uint64_t)id - (((uint64_t)FIRST_SEGMENT << k) - FIRST_SEGMENT)];
}

static uint64_t hash_of(const dl_strings *t, const char *p, uint64_t n)
{
	return sip_hash(t->key, p, n, 1, 3);
}

/* 16 random bytes from the system. If it has none, they are derived from values that another
 * process can hardly know: the time in nanoseconds, and the addresses of the code and the table. */
static SipKey new_key(const dl_strings *t)
{
	struct timespec now = {0};
	SipKey key;
	int fd;

#if defined(__linux__)
	if (syscall(SYS_getrandom, &key, sizeof(key), GRND_NONBLOCK) == (long)sizeof(key))
		return key;
#endif
	fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		const ssize_t n = read(fd, &key, sizeof(key));

		close(fd);
		if (n == (ssize_t)sizeof(key))
			return key;
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	key.k[0] = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32 ^ (uintptr_t)t;
	key.k[1] = (uintptr_t)&new_key ^ (uint64_t)getpid() << 40;
	return key;
}

/* The slot of the string, or the free one where it belongs. */
static uint64_t find(const dl_strings *t, const char *p, uint64_t n, uint64_t hash)
{
	uint64_t i = hash & (t->nslots - 1);

	for (; t->slot[i]; i = (i + 1) & (t->nslots - 1)) {
		const StringEntry *e = entry(t, t->slot[i] - 1);

		if (e->hash == hash && e->s.n == n && (!n || !memcmp(e->s.p, p, n)))
			break;
	}
	return i;
}

/* Makes room for one more string. */
static bool grow(dl_strings *t, int64_t n)
{
	const uint64_t v = (uint64_t)n / FIRST_SEGMENT + 1;
	const int k = 63 - __builtin_clzll(v);
	const uint64_t nslots = t->nslots ? t->nslots * 2 : FIRST_SEGMENT * 4;
	int64_t *slot;

	if (k >= SEGMENTS)
		return false;
	if (!t->segment[k])
		t->segment[k] = strings_alloc(t, sizeof(StringEntry) * FIRST_SEGMENT << k);
	if (!t->segment[k])
		return false;
	if (((uint64_t)n + 1) * 2 <= t->nslots)
		return true;
	slot = strings_alloc(t, sizeof(*slot) * nslots);
	if (!slot)
		return false;
	memset(slot, 0, sizeof(*slot) * nslots);
	strings_release(t, t->slot, sizeof(*slot) * t->nslots);
	t->slot = slot;
	t->nslots = nslots;
	for (int64_t id = 0; id < n; id++) {
		uint64_t i = entry(t, id)->hash & (nslots - 1);

		while (slot[i])
			i = (i + 1) & (nslots - 1);
		slot[i] = id + 1;
	}
	return true;
}

/* Adds the string, which must stay valid, in slot I. */
static int64_t add(dl_strings *t, uint64_t i, dl_str s, uint64_t hash)
{
	const int64_t id = atomic_load_explicit(&t->n, memory_order_relaxed);

	*entry(t, id) = (StringEntry){s, hash};
	t->slot[i] = id + 1;
	atomic_store_explicit(&t->n, id + 1, memory_order_release);
	return id;
}

/* As strings_intern; CONSTANT: the bytes stay valid and are not copied. */
static int64_t intern(dl_strings *t, const char *p, uint64_t n, bool constant)
{
	const uint64_t hash = hash_of(t, p, n);
	const int64_t count = atomic_load_explicit(&t->n, memory_order_relaxed);
	char *copy = NULL;
	uint64_t i;

	if (t->nslots) {
		i = find(t, p, n, hash);
		if (t->slot[i])
			return t->slot[i] - 1;
	}
	if (!grow(t, count) || (!constant && n && !(copy = new_bytes(t, n)))) {
		strings_fail(t, DL_NOMEM, 0, NULL);
		return 0;
	}
	if (copy)
		memcpy(copy, p, n);
	i = find(t, p, n, hash);
	return add(t, i, (dl_str){constant ? p : copy ? copy : "", n}, hash);
}

int64_t strings_intern(dl_strings *t, const char *p, uint64_t n)
{
	int64_t id;

	if (!n)
		return 0;
	pthread_mutex_lock(&t->lock);
	id = intern(t, p, n, false);
	pthread_mutex_unlock(&t->lock);
	return id;
}

/* ---- Tables ---- */

static void new_generation(dl_strings *t)
{
	static _Atomic uint64_t last;

	t->generation = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

uint64_t strings_generation(const dl_strings *t)
{
	return t->generation;
}

dl_strings *strings_new(const StringsMemory *memory, const dl_str *constant, int64_t n)
{
	const StringsMemory plain = {NULL, malloc_aligned, malloc_free};
	const StringsMemory *from = memory ? memory : &plain;
	dl_strings *t = from->alloc(from->user, sizeof(*t), 64);

	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	t->memory = *from;
	t->key = new_key(t);
	new_generation(t);
	pthread_mutex_init(&t->lock, NULL);
	intern(t, "", 0, true);
	for (int64_t i = 0; i < n; i++)
		intern(t, constant[i].p, constant[i].n, true);
	t->constants = strings_count(t);
	if (!strings_status(t) && (!n || t->constants == n))
		return t;
	strings_free(t);
	return NULL;
}

void strings_free(dl_strings *t)
{
	if (!t)
		return;
	for (int k = 0; k < SEGMENTS; k++)
		strings_release(t, t->segment[k], sizeof(StringEntry) * FIRST_SEGMENT << k);
	for (int k = 0; k < 2; k++)
		for (StringChunk *c = t->chunk[k], *next; c; c = next) {
			next = c->next;
			strings_release(t, c, sizeof(*c) + c->room);
		}
	for (StringsKept *k = t->kept, *next; k; k = next) {
		next = k->next;
		k->free(t, k);
	}
	strings_release(t, t->slot, sizeof(*t->slot) * t->nslots);
	pthread_mutex_destroy(&t->lock);
	strings_release(t, t, sizeof(*t));
}

void strings_begin(dl_strings *t)
{
	for (int64_t id = strings_count(t); id-- > t->constants;) {
		uint64_t i = entry(t, id)->hash & (t->nslots - 1);

		while (t->slot[i] != id + 1)
			i = (i + 1) & (t->nslots - 1);
		t->slot[i] = 0;
	}
	atomic_store_explicit(&t->n, t->constants, memory_order_relaxed);
	strings_clear(t);
	new_generation(t);
	t->now = !t->now;
	t->at = t->chunk[t->now];
	if (t->at)
		t->at->used = 0;
}

int strings_status(const dl_strings *t)
{
	return atomic_load(&t->status);
}

dl_str strings_refused(const dl_strings *t, const char **what)
{
	*what = t->why;
	return strings_get(t, t->refused);
}

void strings_fail(dl_strings *t, int status, int64_t id, const char *what)
{
	int none = DL_OK;

	/* claimed first, so that only one thread writes the fields below; they are read after the
	 * kernel */
	if (!atomic_compare_exchange_strong(&t->status, &none, status))
		return;
	t->refused = id;
	t->why = what;
}

void strings_clear(dl_strings *t)
{
	atomic_store(&t->status, DL_OK);
}

int64_t strings_count(const dl_strings *t)
{
	return atomic_load_explicit(&t->n, memory_order_acquire);
}

dl_str strings_get(const dl_strings *t, int64_t id)
{
	if (id <= 0 || id >= strings_count(t))
		return (dl_str){"", 0};
	return entry(t, id)->s;
}

static StringsKept *find_kept(dl_strings *t, int64_t id)
{
	StringsKept *k = atomic_load_explicit(&t->kept, memory_order_acquire);

	while (k && k->id != id)
		k = k->next;
	return k;
}

const StringsKept *strings_keep(dl_strings *t, int64_t id,
				StringsKept *(*make)(dl_strings *t, int64_t id))
{
	StringsKept *k = find_kept(t, id);

	if (k)
		return k;
	pthread_mutex_lock(&t->lock);
	k = find_kept(t, id);
	if (!k && (k = make(t, id))) {
		k->id = id;
		k->next = t->kept;
		atomic_store_explicit(&t->kept, k, memory_order_release);
	}
	pthread_mutex_unlock(&t->lock);
	return k;
}

const dl_string_table dl_rt_strings = {
	.create = strings_new,
	.free = strings_free,
	.begin = strings_begin,
	.intern = strings_intern,
	.status = strings_status,
	.refused = strings_refused,
	.clear = strings_clear,
	.get = strings_get,
};
