"""The program as `cmake --install` leaves it."""
import pathlib
import subprocess

import harness
from harness import NOT_FOUND, PATIENCE, ROOT, UNAVAILABLE, Case


class InstallTest(Case):
    def setUp(self):
        super().setUp()
        tree = pathlib.Path(Case.program).parents[1]
        self.prefix = self.dir / "prefix"
        subprocess.run(["cmake", "--install", tree, "--prefix", self.prefix,
                        "--component", "program"], check=True, capture_output=True,
                       timeout=PATIENCE)
        self.program = str(self.prefix / "bin/headworks")
        self.supervisor = self.prefix / "libexec/headworks/headworks-supervisor"

    def supervisor_check(self, **code):
        return next(check for check in self.json("doctor", **code) if check["check"] == "supervisor")

    def test_program_and_doctor_find_the_supervisor_below_libexec(self):
        check = self.supervisor_check()
        self.assertTrue(check["ok"])
        self.assertEqual(pathlib.Path(check["detail"]).resolve(), self.supervisor)
        self.assertIn("hello: ", self.hw("run", ROOT / "examples/hello/hello.yaml").stdout)

    def test_link_to_the_program_finds_it_too(self):
        (self.dir / "headworks").symlink_to(self.program)
        self.program = str(self.dir / "headworks")
        self.assertTrue(self.supervisor_check()["ok"])

    def test_missing_supervisor_is_told_with_the_places(self):
        self.supervisor.unlink()
        detail = self.supervisor_check(code=UNAVAILABLE)["detail"]
        done = self.hw("run", ROOT / "examples/hello/hello.yaml", code=NOT_FOUND)
        for text in (detail, done.stderr):
            self.assertIn(str(self.prefix / "bin"), text)
            self.assertIn("../libexec/headworks", text)


if __name__ == "__main__":
    harness.main()
