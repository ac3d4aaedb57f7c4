// The little that the backend must know about the interpreter it lives in: Ctrl-C, and the GIL around blocking calls that
// Python reaches without releasing it (destructors). Any thread.
#pragma once

namespace pycomms::c10d_backend {

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

}  // namespace pycomms::c10d_backend
