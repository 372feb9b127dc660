// The thread that a batch is called from: a new one for each batch.
//
// An OpenMP runtime keeps a team of workers for each thread that calls it, and what they wait on lies where
// that team was allocated. How far that is from each core is a matter of physical addresses, and stays so for
// the life of the team: copies of one kernel with short parallel regions were seen 5% apart in two processes.
// A new caller has a new team, and memory of another size before it puts the team elsewhere, so that a race
// samples such places instead of standing or falling with one. The team ends with its caller: a runtime that
// knows more threads than there are processors lets none of them spin.
#ifndef KWR_CALLER_H
#define KWR_CALLER_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>

namespace kwr {

class Caller {
 public:
  Caller() {
    sem_init(&go_, 0, 0);
    sem_init(&done_, 0, 0);
  }

  // Starts the thread, with `padding` bytes allocated in it; jobs run in this one where there is no other.
  void start(int64_t padding) {
    stop();
    padding_ = padding;
    running_ = pthread_create(&thread_, nullptr, serve, this) == 0;
  }

  template <class Job>
  void run(Job job) {
    if (!running_) return job();
    context_ = &job;
    work_ = [](void *context) { (*static_cast<Job *>(context))(); };
    sem_post(&go_);
    wait(done_);
  }

  void stop() {
    if (!running_) return;
    work_ = nullptr;
    sem_post(&go_);
    pthread_join(thread_, nullptr);
    running_ = false;
  }

 private:
  static void wait(sem_t &semaphore) {
    while (sem_wait(&semaphore) != 0 && errno == EINTR) {
    }
  }

  static void *serve(void *self) {
    auto &caller = *static_cast<Caller *>(self);
    void *volatile padding = malloc(size_t(caller.padding_));
    for (;;) {
      wait(caller.go_);
      if (caller.work_ == nullptr) break;
      caller.work_(caller.context_);
      sem_post(&caller.done_);
    }
    free(padding);
    return nullptr;
  }

  sem_t go_, done_;
  pthread_t thread_;
  bool running_ = false;
  int64_t padding_ = 0;
  void (*work_)(void *) = nullptr;
  void *context_ = nullptr;
};

// Moves the calling thread to a processor and sets it free again: it begins there, and may be moved.
inline void begin_on(int64_t processor) {
  cpu_set_t allowed, one;
  if (processor < 0 || processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  CPU_ZERO(&one);
  CPU_SET(size_t(processor), &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace kwr

#endif  // KWR_CALLER_H
