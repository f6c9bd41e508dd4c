"""A consumer of DLPack on a GPU, and the driver's calls that it makes: what torch does, for machines without a GPU.

The driver is the fake one of `crates/testkit/src/cuda`, which simulates a GPU by threads. Programs that tests run import this.
"""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

CPU, CUDA = 1, 2
READ_ONLY, COPIED = 1, 2


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    ]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", c_void_p), ("deleter", c_void_p)]


def _function(name, result, *arguments):
    function = ctypes.pythonapi[name]
    function.restype, function.argtypes = result, list(arguments)
    return function


_get_name = _function("PyCapsule_GetName", c_char_p, ctypes.py_object)
_get_pointer = _function("PyCapsule_GetPointer", c_void_p, ctypes.py_object, c_char_p)
_set_name = _function("PyCapsule_SetName", c_int, ctypes.py_object, c_char_p)
# Names of consumed capsules must live as long as these.
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Tensor:
    """What a capsule holds, taken out of it as a consumer does."""

    def __init__(self, capsule):
        name = _get_name(capsule)
        self.versioned = name == b"dltensor_versioned"
        self._at = _get_pointer(capsule, name)
        managed = (Versioned if self.versioned else Legacy).from_address(self._at)
        assert _set_name(capsule, _USED[name]) == 0
        tensor = managed.tensor
        self.version = (managed.major, managed.minor) if self.versioned else None
        self.flags = managed.flags if self.versioned else None
        self.device = (tensor.device_type, tensor.device_id)
        self.dtype = (tensor.code, tensor.bits, tensor.lanes)
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim])
        self.address = tensor.data + tensor.byte_offset
        count = 1
        for size in self.shape:
            count *= size
        self.nbytes = count * tensor.bits // 8
        # A call of ctypes releases the interpreter.
        self.deleter = ctypes.CFUNCTYPE(None, c_void_p)(managed.deleter)

    def release(self):
        """Calls the deleter, which a consumer does once."""
        at, self._at = self._at, None
        assert at is not None, "released twice"
        self.deleter(at)


class Driver:
    """The calls of a consumer, in the GPU's primary context."""

    def __init__(self, number=0):
        self._cuda = ctypes.CDLL("libcuda.so")
        self._cuda.fake_cuda_calls.restype = ctypes.c_long
        self._cuda.fake_cuda_enqueue.argtypes = [c_void_p, c_void_p, c_void_p]
        context = c_void_p()
        self._call("cuInit", c_uint32(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), c_int(number))
        self._number = number
        self._context = context
        self.enter()

    def _call(self, name, *arguments):
        status = self._cuda[name](*arguments)
        assert status == 0, f"{name} gives {status}"

    def enter(self):
        """Makes the context that of this thread."""
        self._call("cuCtxSetCurrent", self._context)

    def close(self):
        """Gives the context back."""
        self._call("cuDevicePrimaryCtxRelease_v2", c_int(self._number))

    def stream(self):
        """A new stream that does not wait for the default one."""
        stream = c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), c_uint32(1))
        return stream.value

    def calls(self, name):
        """How often a function of the driver was called."""
        return self._cuda.fake_cuda_calls(name.encode())

    def pause(self, stream, seconds):
        """Keeps a stream busy."""
        usleep = ctypes.cast(ctypes.CDLL(None).usleep, c_void_p)
        self._cuda.fake_cuda_enqueue(stream, usleep, int(seconds * 1e6))

    def synchronize(self, stream):
        self._call("cuStreamSynchronize", c_void_p(stream))

    def copy(self, tensor, stream):
        """Queues a copy of a tensor on a stream; returns a function that waits for it and gives the bytes."""
        to = c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(to), c_size_t(tensor.nbytes))
        self._call("cuMemcpyDtoDAsync_v2", to, c_uint64(tensor.address), c_size_t(tensor.nbytes), c_void_p(stream))

        def found():
            self.synchronize(stream)
            found = ctypes.create_string_buffer(tensor.nbytes)
            self._call("cuMemcpyDtoH_v2", found, to, c_size_t(tensor.nbytes))
            self._call("cuMemFree_v2", to)
            return found.raw

        return found
