// The Python frames of this thread, walked without the GIL: each as the address of the instruction that it is at, which
// names a line for as long as its code object lives. That is safe in one direction only, from a thread to its own frames,
// which nobody changes while it is in a call to us.
// CPython keeps its frames to itself and lays them out anew in every version: only the ones that we have tested are read
// like this. Elsewhere PYCOMMS_WALKS_FRAMES is 0, and a walk visits nothing.
#pragma once

#include <Python.h>
#include <frameobject.h>  // Python 3.10 has not all of frames in the other

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && !defined(Py_GIL_DISABLED)
#define PYCOMMS_WALKS_FRAMES 1
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#include <internal/pycore_frame.h>
#else
#define PYCOMMS_WALKS_FRAMES 0
#endif

namespace pycomms::python {

// visit(address) -> bool; false ends the walk. Innermost first.
template <typename Visit>
void walk_frames(Visit visit) {
#if PYCOMMS_WALKS_FRAMES
  const PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr || thread->cframe == nullptr) return;
  for (const _PyInterpreterFrame* frame = thread->cframe->current_frame; frame != nullptr; frame = frame->previous) {
    if (!visit(reinterpret_cast<uintptr_t>(frame->prev_instr))) return;
  }
#else
  static_cast<void>(visit);
#endif
}

// The same address, of a frame object; with the GIL. Zero where frames are not walked.
inline uintptr_t address_of(PyFrameObject* frame, PyCodeObject* code) {
#if PYCOMMS_WALKS_FRAMES
  const int offset = PyFrame_GetLasti(frame);
  return offset < 0 ? 0 : reinterpret_cast<uintptr_t>(_PyCode_CODE(code)) + static_cast<uintptr_t>(offset);
#else
  static_cast<void>(frame);
  static_cast<void>(code);
  return 0;
#endif
}

}  // namespace pycomms::python
