package supervisor_test

func actOut() {}
