"""The program of tests/consumer with the package that was just made: headers alone, and the library."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class TestVram(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder="../../../../tests/consumer")
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("c", "cxx", "static", "shared"):
                self.run(os.path.join(self.cpp.build.bindir, f"consumer-{program}"), env="conanrun")
