// The steps of `test_generated_clients`, with the client of openapi-generator's go: PROGRAM BASE_URL KEY.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	openapi "github.com/GIT_USER_ID/GIT_REPO_ID"
)

var ctx = context.WithValue(context.Background(), openapi.ContextAccessToken, os.Args[2])

// check ends the program after an error.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// wait returns when the freeze is as it should be; the test limits the time.
func wait(client *openapi.APIClient, id string, done func(*openapi.Freeze) bool) {
	for {
		freeze, _, err := client.FreezesAPI.GetFreeze(ctx, id).Execute()
		check(err)
		if done(freeze) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func main() {
	configuration := openapi.NewConfiguration()
	configuration.Servers = openapi.ServerConfigurations{{URL: os.Args[1]}}
	client := openapi.NewAPIClient(configuration)

	repository, _, err := client.RepositoriesAPI.GetRepository(ctx, "acme/web").Execute()
	check(err)
	if repository.FullName != "acme/web" {
		panic(repository.FullName)
	}

	scope := openapi.NewBranchScope("branch")
	scope.SetRepository("acme/web")
	scope.SetBranch("main")
	request := openapi.NewCreateFreezeRequest(openapi.BranchScopeAsScopeInput(scope), "Frozen by a Go program")
	freeze, _, err := client.FreezesAPI.CreateFreeze(ctx).CreateFreezeRequest(*request).Execute()
	check(err)
	wait(client, freeze.Id, func(found *openapi.Freeze) bool { return found.EnforcedAt.Get() != nil })
	fmt.Println("frozen", freeze.Id)

	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	_, _, err = client.FreezesAPI.LiftFreeze(ctx, freeze.Id).Execute()
	check(err)
	wait(client, freeze.Id, func(found *openapi.Freeze) bool { return found.ReleasedAt.Get() != nil })
	fmt.Println("lifted", freeze.Id)

	_, _, err = client.FreezesAPI.LiftFreeze(ctx, freeze.Id).Execute()
	var refusal *openapi.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		panic(err)
	}
	fmt.Println("refused", refusal.Model().(openapi.ErrorResponse).Error.Code)

	listed := map[string]bool{}
	pages := client.RepositoriesAPI.ListRepositories(ctx).Limit(5)
	for more := true; more; {
		page, _, err := pages.Execute()
		check(err)
		for _, found := range page.Data {
			listed[found.Id] = true
		}
		cursor := page.NextCursor.Get()
		if more = cursor != nil; more {
			pages = pages.Cursor(*cursor)
		}
	}
	fmt.Println("listed", len(listed))
}
