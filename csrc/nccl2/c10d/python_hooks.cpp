#include "nccl2/c10d/python_hooks.h"

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <utility>

namespace pycomms::c10d_backend {
namespace {

thread_local std::exception_ptr pending_signal;

bool is_main_thread() {
  thread_local const bool main = syscall(SYS_gettid) == getpid();
  return main;
}

pybind11::object tables() { return pybind11::module_::import("pycomms.process_group._tables"); }

}  // namespace

bool interpreter_is_up() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() != 0 && Py_IsFinalizing() == 0;
#else
  return Py_IsInitialized() != 0 && _Py_IsFinalizing() == 0;
#endif
}

bool interrupted() {
  if (!is_main_thread() || !interpreter_is_up()) return false;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  pending_signal = std::make_exception_ptr(pybind11::error_already_set());
  return true;
}

void rethrow_pending_signal() {
  if (pending_signal) std::rethrow_exception(std::exchange(pending_signal, nullptr));
}

ReleaseGil::ReleaseGil() {
  if (interpreter_is_up() && PyGILState_Check() != 0) saved_ = PyEval_SaveThread();
}

ReleaseGil::~ReleaseGil() {
  if (saved_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(saved_));
}

std::shared_ptr<void> keep_python_object(void* object) {
  return {object, [](void* held) {
            if (!interpreter_is_up()) return;  // leaked with everything else
            const pybind11::gil_scoped_acquire gil;
            Py_DECREF(static_cast<PyObject*>(held));
          }};
}

CallerScope CallerScope::of_caller() {
  CallerScope scope;
  if (!interpreter_is_up()) return scope;
  const pybind11::gil_scoped_acquire gil;
  if (PyEval_GetFrame() == nullptr) return scope;  // a thread of C++
  pybind11::object generator = tables().attr("block_of_caller")();
  if (!generator.is_none()) scope.generator_ = keep_python_object(generator.release().ptr());
  return scope;
}

bool CallerScope::has_ended() const {
  if (generator_ == nullptr || !interpreter_is_up()) return false;
  const pybind11::gil_scoped_acquire gil;
  const pybind11::object generator = pybind11::handle(static_cast<PyObject*>(generator_.get()))();
  return pybind11::getattr(generator, "gi_frame", pybind11::none()).is_none();  // of one that has gone, too
}

void CallerScope::forget_block_when_left() const { tell_tables("forget_block_when_left"); }

void CallerScope::forget_block() const { tell_tables("forget_block"); }

void CallerScope::tell_tables(const char* what) const {
  if (generator_ == nullptr || !interpreter_is_up()) return;
  const pybind11::gil_scoped_acquire gil;
  const pybind11::object generator = pybind11::handle(static_cast<PyObject*>(generator_.get()))();
  tables().attr(what)(generator);
}

}  // namespace pycomms::c10d_backend
