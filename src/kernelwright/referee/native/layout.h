// What the referee's parent process and its measuring child exchange through shared memory.
//
// Two mappings: the store, which only the parent can write (inputs and plans), and the board, which both can
// (progress, results, copied outputs). Every offset is in bytes from the start of its mapping; `_layout.py`
// mirrors these structures and checks their sizes against `kwr_layout`.
#ifndef KWR_LAYOUT_H
#define KWR_LAYOUT_H

#include <stdint.h>

#include "kw/abi.h"

#define KWR_RUNS 3
#define KWR_GROUPS 8
#define KWR_NONE (-1)

// Where the child is; at offset 0 of the board, so that the parent can tell what crashed or hangs.
struct kwr_progress {
  int64_t phase;  // kwr_phase
  int64_t index;  // case, or window of the batch
  int64_t run;    // run of the case
  int64_t ticks;  // grows with every call
  // Set when a kernel touches memory that it may not.
  int64_t faults;
  int64_t fault_buffer;  // the buffer whose surroundings were touched, or KWR_NONE
  int64_t fault_at;      // bytes from the start of that buffer
};

enum kwr_phase { KWR_IDLE = 0, KWR_LOADING = 1, KWR_CHECKING = 2, KWR_OPENING = 3, KWR_RACING = 4 };

enum kwr_placement {
  KWR_AT_START = 0,  // the first byte is the first of a page, and the page before cannot be touched
  KWR_AT_END = 1,    // the last byte is the last of a page, and the page after cannot be touched
};

struct kwr_buffer {
  int64_t nbytes;
  int64_t input;             // in the store, or KWR_NONE for an output
  int64_t output[KWR_RUNS];  // in the board, where the output of a run is copied, or KWR_NONE
};

// One call to be judged, made up to KWR_RUNS times.
struct kwr_case {
  kw_call call;
  int32_t buffers;
  int32_t runs;
  int32_t placement[KWR_RUNS];
  int32_t threads[KWR_RUNS];
  int32_t poison[KWR_RUNS];  // the byte that outputs are filled with before the call
  int32_t null_if_empty[KWR_RUNS];
  struct kwr_buffer buffer[KW_MAX_TENSORS];
};

struct kwr_case_result {
  int32_t runs_done;
  int32_t status[KWR_RUNS];
  uint32_t float_control[KWR_RUNS];  // MXCSR after the call
  int32_t block_changed[KWR_RUNS];
  int32_t inputs_changed[KWR_RUNS];  // one bit a buffer
  int32_t written_outside[KWR_RUNS];
  uint32_t float_control_before;
  int64_t outside_at[KWR_RUNS];  // bytes from the start of the first buffer so harmed to the harm
  int64_t elapsed_ns[KWR_RUNS];
};

struct kwr_race_buffer {
  int64_t nbytes;
  int64_t output;
  int64_t item;   // bytes of an element that may be replaced by another one of the same input; 0: none may
  uint64_t vary;  // bits that may be flipped in each 64-bit word, so that every set has contents of its own
  int64_t source[KWR_GROUPS];
};

// One contestant's race: it alone runs in its process.
struct kwr_race {
  kw_call call;
  int32_t buffers;
  int32_t groups;
  int32_t cold;
  int32_t allocating;
  int32_t threads;  // what OpenMP should use; 0: leave it
  int32_t judged;   // 0: outputs are not looked at, so that nothing is changed or poisoned
  int64_t arena_limit;
  int64_t batch_ns;
  uint64_t seed;
  struct kwr_race_buffer buffer[KW_MAX_TENSORS];
};

struct kwr_race_state {
  int64_t sets;
  int64_t set_bytes;
  int64_t arena_bytes;
  int64_t windows;  // of a full batch
  int64_t calls;    // in one window
  int64_t ran;      // windows of the last batch
  int64_t last;     // of the last batch: the set of its last call
  int64_t status;   // what a kernel returned that failed
  uint32_t float_control;
  uint32_t float_control_found;  // after the last batch, before it was put right
  int32_t huge_pages;
  int32_t reserved;
  double estimate_ns;
};

// Which calls of a batch keep their output, in the allocating regime.
#define KWR_KEPT 8

// What the parent wants to see of a batch, and where in the board it is put.
struct kwr_look {
  int64_t set;                 // or, in the allocating regime, the call whose output was kept
  int64_t kind;                // kwr_look_kind
  int64_t at[KW_MAX_TENSORS];  // each buffer with the fences around it, as found; or KWR_NONE
};

enum kwr_look_kind {
  KWR_OUTPUTS = 0,  // the outputs alone
  KWR_ALL = 1,      // the inputs, too
  KWR_LAST = 2,     // the outputs of the last call, as they were when it returned
};

#define KWR_FENCE_BYTES 64

#endif  // KWR_LAYOUT_H
