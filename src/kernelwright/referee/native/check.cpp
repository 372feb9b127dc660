// Calls to be judged: each in guarded buffers of its own, its output copied out for the parent.
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel.h"

namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kGuard = kPage;  // at least this many guard bytes on the side without a forbidden page
constexpr unsigned char kCanary = 0xA7;

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

// Address space for one buffer. All of it is forbidden but the payload of the present call, which always
// begins at the same place: calls of one shape see the same address with other contents.
class Slot {
 public:
  bool prepare(int64_t nbytes, int placement, unsigned char fill) {
    const int64_t payload = round_up(nbytes, kPage) + kGuard;
    if (!open(payload)) return false;
    nbytes_ = nbytes;
    payload_ = payload;
    data_ = base_ + kPage + (placement == KWR_AT_END ? payload - nbytes : 0);
    memset(base_ + kPage, kCanary, size_t(data_ - (base_ + kPage)));
    memset(data_ + nbytes, kCanary, size_t(base_ + kPage + payload - (data_ + nbytes)));
    memset(data_, fill, size_t(nbytes));
    return true;
  }

  unsigned char *data() const { return data_; }

  bool holds(const void *address) const {
    const auto *p = static_cast<const unsigned char *>(address);
    return base_ != nullptr && p >= base_ && p < base_ + reserved_;
  }

  // Offset from the buffer of the first guard byte that is not as it was, or 0 and false.
  bool harmed(int64_t *at) const {
    const unsigned char *begin = base_ + kPage;
    const unsigned char *end = begin + payload_;
    for (const unsigned char *p = data_ + nbytes_; p < end; ++p)
      if (*p != kCanary) return *at = p - data_, true;
    for (const unsigned char *p = data_; p-- > begin;)
      if (*p != kCanary) return *at = p - data_, true;
    return false;
  }

 private:
  bool open(int64_t payload) {
    const int64_t wanted = payload + 2 * kPage;
    if (wanted > reserved_) {
      if (base_ != nullptr) munmap(base_, size_t(reserved_));
      base_ = nullptr;
      reserved_ = opened_ = 0;
      void *at = mmap(nullptr, size_t(wanted), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) return false;
      base_ = static_cast<unsigned char *>(at);
      reserved_ = wanted;
      if (payload > (4 << 20)) madvise(base_, size_t(wanted), MADV_HUGEPAGE);
    }
    unsigned char *begin = base_ + kPage;
    if (opened_ > payload) mprotect(begin + payload, size_t(opened_ - payload), PROT_NONE);
    if (mprotect(begin, size_t(payload), PROT_READ | PROT_WRITE) != 0) return false;
    opened_ = payload;
    return true;
  }

  unsigned char *base_ = nullptr;
  unsigned char *data_ = nullptr;
  int64_t reserved_ = 0, opened_ = 0, payload_ = 0, nbytes_ = 0;
};

Slot slots[KW_MAX_TENSORS];
volatile kwr_progress *fault_report = nullptr;

// Says where the forbidden access was; the handler is gone by then, so that the access repeats and ends us.
void on_fault(int, siginfo_t *info, void *) {
  fault_report->fault_buffer = KWR_NONE;
  for (int b = 0; b < KW_MAX_TENSORS; ++b)
    if (slots[b].holds(info->si_addr)) {
      fault_report->fault_buffer = b;
      fault_report->fault_at = static_cast<unsigned char *>(info->si_addr) - slots[b].data();
    }
  fault_report->faults = 1;
}

}  // namespace

// Has forbidden accesses reported in the board before they end the process.
extern "C" __attribute__((visibility("default"))) void kwr_report_faults(unsigned char *board) {
  fault_report = reinterpret_cast<volatile kwr_progress *>(board);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = int(SA_SIGINFO | SA_RESETHAND | SA_NODEFER);
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

// The floating-point controls of this thread; puts `wanted` in their place unless it is 0.
extern "C" __attribute__((visibility("default"))) uint32_t kwr_float_control(uint32_t wanted) {
  const uint32_t found = kwr::float_control();
  if (wanted != 0) _mm_setcsr(wanted);
  return found;
}

// Makes the calls of `count` cases. Returns 0, or ENOMEM when there is no room for the buffers.
extern "C" __attribute__((visibility("default"))) int32_t kwr_check(const unsigned char *store,
                                                                    unsigned char *board, int64_t cases_at,
                                                                    int64_t results_at, int64_t count,
                                                                    void *kernel, int32_t threads) {
  auto *progress = reinterpret_cast<volatile kwr_progress *>(board);
  const auto *cases = reinterpret_cast<const kwr_case *>(store + cases_at);
  auto *results = reinterpret_cast<kwr_case_result *>(board + results_at);
  const uint32_t control = kwr::float_control();
  progress->phase = KWR_CHECKING;
  for (int64_t index = 0; index < count; ++index) {
    const kwr_case &one = cases[index];
    kwr_case_result &result = results[index];
    memset(&result, 0, sizeof result);
    result.float_control_before = control;
    progress->index = index;
    for (int run = 0; run < one.runs; ++run) {
      progress->run = run;
      void *buffers[KW_MAX_TENSORS];
      for (int b = 0; b < one.buffers; ++b) {
        const kwr_buffer &buffer = one.buffer[b];
        if (!slots[b].prepare(buffer.nbytes, one.placement[run], (unsigned char)(one.poison[run])))
          return ENOMEM;
        if (buffer.input != KWR_NONE) memcpy(slots[b].data(), store + buffer.input, size_t(buffer.nbytes));
        buffers[b] = buffer.nbytes == 0 && one.null_if_empty[run] ? nullptr : slots[b].data();
      }
      kw_call block = one.call;
      block.threads = one.threads[run];
      const kw_call before = block;
      if (threads > 0) omp_set_num_threads(threads);
      const int64_t start = kwr::now_ns();
      const int32_t status = kwr::invoke(kernel, &block, one.buffers, buffers);
      result.elapsed_ns[run] = kwr::now_ns() - start;
      const uint32_t found = kwr::float_control();
      if (found != control) _mm_setcsr(control);
      result.status[run] = status;
      result.float_control[run] = found;
      result.block_changed[run] = memcmp(&block, &before, sizeof block) != 0;
      for (int b = one.buffers; b-- > 0;) {
        const kwr_buffer &buffer = one.buffer[b];
        int64_t at = 0;
        if (slots[b].harmed(&at)) {
          result.written_outside[run] |= 1 << b;
          result.outside_at[run] = at;
        }
        if (buffer.input != KWR_NONE &&
            memcmp(slots[b].data(), store + buffer.input, size_t(buffer.nbytes)) != 0)
          result.inputs_changed[run] |= 1 << b;
        if (buffer.output[run] != KWR_NONE)
          memcpy(board + buffer.output[run], slots[b].data(), size_t(buffer.nbytes));
      }
      result.runs_done = run + 1;
      progress->ticks = progress->ticks + 1;
      if (status != KW_OK) break;
    }
  }
  progress->phase = KWR_IDLE;
  return 0;
}

// Sizes of the shared structures, in the order of layout.h, so that the parent can check its mirror of them.
extern "C" __attribute__((visibility("default"))) void kwr_layout(int64_t *sizes) {
  const int64_t all[] = {sizeof(kw_call),  sizeof(kwr_progress),   sizeof(kwr_case), sizeof(kwr_case_result),
                         sizeof(kwr_race), sizeof(kwr_race_state), sizeof(kwr_look)};
  memcpy(sizes, all, sizeof all);
}
