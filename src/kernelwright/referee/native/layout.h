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
#define KWR_CONTESTANTS 16
#define KWR_NONE (-1)

// Where the child is; at offset 0 of the board, so that the parent can tell what crashed or hangs.
struct kwr_progress {
  int64_t phase;  // kwr_phase
  int64_t index;  // case, or block of the round
  int64_t run;    // run of the case, or contestant
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
  uint64_t vary;  // bits that may be flipped in each 64-bit word, so that every set has contents of its own
  int64_t source[KWR_GROUPS];
};

struct kwr_race {
  kw_call call;
  int32_t contestants;
  int32_t buffers;
  int32_t groups;
  int32_t cold;
  int32_t allocating;
  int32_t threads;  // what OpenMP should use; 0: leave it
  int64_t arena_limit;
  int64_t round_ns;
  uint64_t seed;
  struct kwr_race_buffer buffer[KW_MAX_TENSORS];
};

struct kwr_race_state {
  int64_t sets;  // buffer sets each contestant has
  int64_t set_bytes;
  int64_t arena_bytes;
  int64_t blocks_per_round;
  int64_t timed_ns;  // of the last round, all clocked windows
  int64_t other_ns;  // of the last round: warm-up calls and sampled copies
  int64_t samples;   // sampled calls waiting in the board
  int32_t failed;    // contestant whose kernel returned an error, or KWR_NONE
  int32_t status;    // that error
  uint32_t float_control;
  int32_t huge_pages;
  int32_t calls[KWR_CONTESTANTS];  // calls in one clocked window
  double estimate_ns[KWR_CONTESTANTS];
};

// One timed call whose output the parent judges.
struct kwr_sample {
  int32_t contestant;
  int32_t set;
  int32_t group;
  int32_t inputs_changed;
  int32_t written_outside;
  int32_t reserved;
  int64_t
      at[KW_MAX_TENSORS];  // in the board: outputs as found, inputs as given, or KWR_NONE where no set varies
};

#endif  // KWR_LAYOUT_H
