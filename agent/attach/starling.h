/* Starling's C API: a loop of the caller's own trains in a swarm. The agent runs on threads of its own.
 *
 * One thread at a time drives a handle: open; wait until GO; step after each optimizer step, and wait while it answers
 * AGAIN. From GO, CHANGED or RESTORED until the next step the buffers are the caller's, else the library's. All
 * functions return within `ms` and some microseconds. No signal handler is set; the library's threads take no signal.
 * Errors are negative, and starling_message() says what is wrong and what to do. Two swarms are two handles. */
#pragma once
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define STARLING_API __attribute__((visibility("default")))
#define STARLING_ABI 2
#define STARLING_NO_STATE UINT64_MAX

typedef struct starling_swarm starling_swarm;

enum {
  STARLING_GO = 0,            /* the buffers are the caller's: take a step */
  STARLING_CHANGED = 1,       /* the same; a boundary was in between, and params may be others */
  STARLING_RESTORED = 2,      /* the same, and starling_take_state has what was put with these params */
  STARLING_AGAIN = 3,         /* the buffers are the library's: call starling_wait */
  STARLING_STATE_WANTED = 4,  /* a checkpoint is being written: starling_put_state, then starling_wait */
  STARLING_OVER = 5,          /* no more steps are wanted: starling_put_state, then starling_finish */
  STARLING_PARAMS_WANTED = 6, /* `copied` alone: copy into the buffers, then starling_wait */
  STARLING_FAILED = -1,       /* the agent has ended */
  STARLING_FORKED = -2,       /* this is a forked child, and the handle is its parent's */
  STARLING_BUSY = -3,         /* another thread is inside a call with this handle */
  STARLING_CLOSED = -4,       /* no such handle: NULL, or closed */
  STARLING_BAD_ARGUMENT = -5
};

/* A tensor in the params: shape[0..rank) elements from `offset` on. In the order of offsets; none overlap. One that is
   frozen lies elsewhere, and only its equality is checked. */
typedef struct {
  const char* name;
  const int64_t* shape;
  uint32_t rank;
  uint32_t averaged; /* 1: no param, but state that is averaged, such as a running mean: behind all params; 2: frozen */
  uint64_t offset;   /* in elements; of a frozen tensor a hash of its values */
} starling_tensor;

typedef struct {
  uint32_t size;          /* sizeof(starling_options) */
  const char* config;     /* a YAML file; NULL: none */
  const char* const* set; /* keys of it, "swarm.local_steps=8", ..., NULL; may be NULL */
  float* params;          /* `count` elements that outlive the handle; finite */
  float* momentum;        /* as many, of the optimizer; NULL: it has none that could be shared */
  uint64_t count;         /* padding between tensors included */
  const starling_tensor* tensors;
  uint64_t tensor_count;
  uint32_t whole_rounds;  /* 1: no round ends before its last step, whatever happens; other processes follow this one */
  uint32_t adaptive;      /* 1: the optimizer is like Adam, which learns badly where members have other labels */
  const uint64_t* labels; /* the caller's samples by label; copied */
  uint64_t label_count;   /* 0: not known */
  uint32_t copied; /* 1: the loop trains elsewhere, on a GPU say: it copies into the buffers when they are wanted,
                             and out of them after CHANGED and RESTORED */
} starling_options;

enum { STARLING_JOINING, STARLING_GATHERING, STARLING_TRAINING, STARLING_SETTLING, STARLING_ENDED };

typedef struct {
  uint32_t size; /* in: sizeof(starling_now) */
  int32_t phase; /* STARLING_JOINING ... */
  uint64_t own_steps, steps, steps_of_swarm, stop_after, round, peers, exchanges, failed;
  uint64_t steps_left; /* until the next boundary; 0: the buffers are the library's */
  double rate_scale;   /* a factor for the learning rate: a newcomer's ramp, and less after a bad loss */
  double distance;     /* to other models, in rms of the params; negative: not known */
  int32_t carries_momentum;
  int32_t agreed; /* at the end: 1 yes, 0 no, -1 not known, or there was nobody */
} starling_now;

STARLING_API int starling_abi(void); /* STARLING_ABI */
/* Copies all but the buffers. STARLING_GO, and a handle in `out`; else the reason in `error`. */
STARLING_API int starling_open(const starling_options*, starling_swarm** out, char* error, uint64_t error_size);
STARLING_API int starling_wait(starling_swarm*, int ms);
STARLING_API int starling_step(starling_swarm*, uint64_t samples, double loss, int ms);
STARLING_API int starling_add_loss(starling_swarm*, double loss); /* of steps since the boundary that told 0 */
/* Copied. NULL, 0: it has none. NULL, STARLING_NO_STATE: not now, and the checkpoint is not written. */
STARLING_API int starling_put_state(starling_swarm*, const void*, uint64_t size);
STARLING_API int64_t starling_take_state(starling_swarm*, void*, uint64_t size); /* its size; copied if it fits */
STARLING_API int starling_report(starling_swarm*, double accuracy /* 0 to 1 */, double loss, uint64_t samples);
STARLING_API int starling_look(starling_swarm*, starling_now*); /* any thread */
STARLING_API int64_t starling_log(starling_swarm*, int* level, char* line,
                                  uint64_t size);                                  /* next one; 0: there is none */
STARLING_API int64_t starling_place(starling_swarm*, char* text, uint64_t size);   /* "FOLDER, HOST:PORT" */
STARLING_API int64_t starling_message(starling_swarm*, char* text, uint64_t size); /* of the last error */
STARLING_API int starling_leave(starling_swarm*);          /* no more steps; the others learn that this agent leaves */
STARLING_API int starling_finish(starling_swarm*, int ms); /* OVER: ended, the buffers are the caller's for good */
STARLING_API int starling_close(starling_swarm*);          /* leaves, waits for the end, frees */

#ifdef __cplusplus
}
#endif
