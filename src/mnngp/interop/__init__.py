"""Kernels of this library for other libraries; each module needs that library, and nothing else imports it."""
