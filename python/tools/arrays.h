/* SPDX-License-Identifier: MIT
 *
 * NumPy arrays as kernels see them: the part of gnograd._core that is not made from gnograd.h.
 * In Python the address of an array costs more than many a kernel.
 */

/* address(array): where an array begins; 0 for None. */
static PyObject *address(PyObject *module, PyObject *array)
{
    if (array == Py_None)
        return PyLong_FromLong(0);
    if (!PyArray_Check(array)) {
        PyErr_Format(PyExc_TypeError, "%s has no address, needs an array", Py_TYPE(array)->tp_name);
        return NULL;
    }
    return PyLong_FromVoidPtr(PyArray_DATA((PyArrayObject *)array));
}

/* layouts(arrays): types and shapes of a tuple of arrays, any of them None, as bytes that no other
   types and shapes have, and the addresses. None where kernels cannot take them all as they are, or
   where some are not plain arrays. */
static PyObject *layouts(PyObject *module, PyObject *arrays)
{
    if (!PyTuple_CheckExact(arrays)) {
        PyErr_SetString(PyExc_TypeError, "needs a tuple");
        return NULL;
    }
    const Py_ssize_t n = PyTuple_GET_SIZE(arrays);
    Py_ssize_t length = 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *array = PyTuple_GET_ITEM(arrays, k);
        if (array == Py_None)
            length += 1;
        else if (PyArray_CheckExact(array) && PyArray_ISCARRAY_RO((PyArrayObject *)array))
            length += 2 + PyArray_NDIM((PyArrayObject *)array);
        else
            Py_RETURN_NONE;
    }
    PyObject *found = PyBytes_FromStringAndSize(NULL, length * sizeof(npy_intp));
    PyObject *addresses = PyTuple_New(n);
    if (!found || !addresses)
        goto failed;
    npy_intp *entry = (npy_intp *)PyBytes_AS_STRING(found);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PyTuple_GET_ITEM(arrays, k);
        void *data = NULL;
        if (item == Py_None) {
            *entry++ = -1;
        } else {
            PyArrayObject *array = (PyArrayObject *)item;
            *entry++ = PyArray_TYPE(array);
            *entry++ = PyArray_NDIM(array);
            for (int d = 0; d < PyArray_NDIM(array); d++)
                *entry++ = PyArray_DIM(array, d);
            data = PyArray_DATA(array);
        }
        PyObject *where = PyLong_FromVoidPtr(data);
        if (!where)
            goto failed;
        PyTuple_SET_ITEM(addresses, k, where);
    }
    return Py_BuildValue("(NN)", found, addresses);
failed:
    Py_XDECREF(found);
    Py_XDECREF(addresses);
    return NULL;
}
