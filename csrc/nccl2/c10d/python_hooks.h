// The little that the backend must know about the interpreter it lives in: Ctrl-C, the GIL around blocking calls that
// Python reaches without releasing it (destructors), and whether a `with` block has been left. Any thread.
#pragma once

#include <memory>

namespace pycomms::c10d_backend {

// False before the interpreter's start, and while it ends.
bool interpreter_is_up();
// True when a signal handler of Python asked to stop. Asks on the main thread only; the exception is kept for
// rethrow_pending_signal() of this thread.
bool interrupted();
// Throws the exception of the last interrupted() of this thread; returns when there is none.
void rethrow_pending_signal();

// Releases the GIL for a scope, if this thread holds it.
class ReleaseGil {
 public:
  ReleaseGil();
  ~ReleaseGil();
  ReleaseGil(const ReleaseGil&) = delete;
  ReleaseGil& operator=(const ReleaseGil&) = delete;

 private:
  void* saved_ = nullptr;
};

// Takes over a reference to a PyObject, and drops it with the GIL; after the interpreter's end, not at all.
std::shared_ptr<void> keep_python_object(void* object);

// The generator that calls us, such as the one behind `with _coalescing_manager():`. An exception in the `with` block ends
// it without a further call of ours. For callers of another kind it never ends.
class CallerScope {
 public:
  CallerScope() = default;
  static CallerScope of_caller();
  bool has_ended() const;
  // torch keeps a block open that an exception has left, and puts aside what is called after it. It forgets this one as soon
  // as it has been left, or now.
  void forget_block_when_left() const;
  void forget_block() const;

 private:
  void tell_tables(const char* what) const;
  std::shared_ptr<void> generator_;  // a weak reference, a PyObject; null: unknown
};

}  // namespace pycomms::c10d_backend
