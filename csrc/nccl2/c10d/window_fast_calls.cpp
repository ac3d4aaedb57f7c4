#include "nccl2/c10d/window_fast_calls.h"

#include <torch/csrc/autograd/python_variable.h>

#include <climits>
#include <vector>

#include "nccl2/c10d/window_self.h"

namespace py = pybind11;

namespace pycomms::c10d_backend {
namespace {

// Constant once the class is bound; the classes live as long as the interpreter.
struct General {
  PyObject* put = nullptr;
  PyObject* get = nullptr;
  PyObject* flush = nullptr;
  void (*translate)(std::exception_ptr) = nullptr;
};
General general;

PyObject* call_general(PyObject* method, PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
  const auto total =
      static_cast<size_t>(nargs) + (keywords == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(keywords)));
  std::vector<PyObject*> all{self};
  all.insert(all.end(), args, args + total);
  return PyObject_Vectorcall(method, all.data(), static_cast<size_t>(nargs) + 1, keywords);
}

template <typename Call>
PyObject* guarded(Call&& call) noexcept {
  try {
    call();
    Py_RETURN_NONE;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (...) {
    try {
      general.translate(std::current_exception());
    } catch (const std::exception& error) {  // torch's own
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  }
  return nullptr;
}

// Fits an int, and is no bool or object with an index of its own: those take the long way.
bool is_small_int(PyObject* value, long* number) {
  if (!PyLong_CheckExact(value)) return false;
  int overflow = 0;
  *number = PyLong_AsLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool is_usual(PyObject* const* args, Py_ssize_t nargs, PyObject* keywords, long* peer, long* offset) {
  *offset = 0;
  return keywords == nullptr && (nargs == 2 || nargs == 3) && THPVariable_Check(args[0]) &&
         is_small_int(args[1], peer) && *peer >= INT_MIN && *peer <= INT_MAX &&
         (nargs == 2 || is_small_int(args[2], offset));
}

PyObject* put(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
  long peer = 0, offset = 0;
  if (!is_usual(args, nargs, keywords, &peer, &offset)) return call_general(general.put, self, args, nargs, keywords);
  return guarded([&] {
    window_of(self).put(THPVariable_Unpack(args[0]), static_cast<int>(peer), Place(int64_t{offset}), std::nullopt, {});
  });
}

PyObject* get(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
  long peer = 0, offset = 0;
  if (!is_usual(args, nargs, keywords, &peer, &offset)) return call_general(general.get, self, args, nargs, keywords);
  return guarded(
      [&] { window_of(self).get(THPVariable_Unpack(args[0]), static_cast<int>(peer), Place(int64_t{offset}), {}); });
}

PyObject* flush(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* keywords) {
  long peer = 0;
  const bool is_usual = keywords == nullptr && nargs <= 1 && (nargs == 0 || is_small_int(args[0], &peer)) &&
                        peer >= INT_MIN && peer <= INT_MAX;
  if (!is_usual) return call_general(general.flush, self, args, nargs, keywords);
  return guarded([&] { window_of(self).flush(nargs == 0 ? std::nullopt : std::optional(static_cast<int>(peer)), {}); });
}

using FastCall = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

void replace(py::object& window_class, const char* name, FastCall call, PyObject** before) {
  const py::object was = window_class.attr(name);
  auto* const definition =
      new PyMethodDef{// as long as the class
                      name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                      METH_FASTCALL | METH_KEYWORDS, PyUnicode_AsUTF8(py::str(was.attr("__doc__")).release().ptr())};
  *before = py::object(was).release().ptr();
  auto* const type = reinterpret_cast<PyTypeObject*>(window_class.ptr());
  window_class.attr(name) = py::reinterpret_steal<py::object>(PyDescr_NewMethod(type, definition));
}

}  // namespace

void bind_fast_calls(py::object window_class, void (*translate)(std::exception_ptr)) {
  general.translate = translate;
  replace(window_class, "put", &put, &general.put);
  replace(window_class, "get", &get, &general.get);
  replace(window_class, "flush", &flush, &general.flush);
}

}  // namespace pycomms::c10d_backend
